// Memory of the data path: mapped once at set-up, zeroed by the kernel, returned when the owner
// dies. Transparent huge pages are asked for; a machine without them only has more TLB misses. What
// an RDMA device reads or writes may come from the pages that the machine reserved.
//
// An object belongs to one owner; the bytes are shared by whoever the owner's protocol says.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "common/base/status.h"
#include "common/base/unique_fd.h"
#include "common/memory/fault_guard.h"

namespace phub {

// kReserved: 2 MiB pages of the pool (vm.nr_hugepages) if it has enough of them and half of
// one would be filled, else as kTransparent.
enum class Pages : std::uint8_t { kTransparent, kReserved };

// A range of mapped pages.
class Mapping {
 public:
  // Private zero pages, reserved but not resident until touched.
  static Result<std::unique_ptr<Mapping>> anonymous(std::size_t bytes,
                                                    Pages pages = Pages::kTransparent);
  // The whole of `fd`. Error: kInvalidArgument if it holds fewer than `bytes`.
  static Result<std::unique_ptr<Mapping>> of_file(int fd, std::size_t bytes, bool writable);

  ~Mapping();
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

  std::byte* data() const { return data_; }
  std::size_t size() const { return size_; }
  // What it got.
  Pages pages() const { return pages_; }
  // From now on a page that fails is one of zeros, and has_failed() says so (fault_guard.h).
  Status guard(bool writable);
  bool has_failed() const { return guard_.has_failed(); }

 private:
  Mapping(void* data, std::size_t size, std::size_t mapped, Pages pages)
      : data_(static_cast<std::byte*>(data)), size_(size), mapped_(mapped), pages_(pages) {}
  std::byte* data_;
  std::size_t size_;
  std::size_t mapped_;  // whole pages
  Pages pages_;
  GuardedRange guard_;
};

// Memory with a descriptor, for another process to map. Its size is sealed: nobody can shrink it
// under a reader.
class SharedMemory {
 public:
  // `name` shows in /proc/PID/maps.
  static Result<std::unique_ptr<SharedMemory>> create(const std::string& name, std::size_t bytes,
                                                      Pages pages = Pages::kTransparent);

  std::byte* data() const { return mapping_->data(); }
  std::size_t size() const { return mapping_->size(); }
  Pages pages() const { return mapping_->pages(); }
  int fd() const { return fd_.get(); }
  // Makes every page resident. Error: kResourceExhausted.
  Status populate();
  // The same, and no page can be taken away from now on, by nobody; nobody can map it writable any
  // more. What a reader who does not trust us insists on (peer_memory.h).
  Status commit();
  // A descriptor through which it can be read and written; nobody can seal it any more. Error:
  // kResourceExhausted.
  Result<UniqueFd> share() const;
  // A descriptor through which the memory can only be read; from now on nobody can map it
  // writable, through any descriptor.
  Result<UniqueFd> share_read_only();

 private:
  SharedMemory(UniqueFd fd, std::unique_ptr<Mapping> mapping)
      : fd_(std::move(fd)), mapping_(std::move(mapping)) {}
  static Result<std::unique_ptr<SharedMemory>> create(const std::string& name, std::size_t bytes,
                                                      unsigned flags);
  Status seal_against_writers();
  UniqueFd fd_;
  std::unique_ptr<Mapping> mapping_;
};

std::size_t page_bytes();

}  // namespace phub
