// A "GPU's" memory that faults when a CPU touches it: addresses without access, and a file behind
// them that stands for the dma-buf. Adapters (fake_verbs, memfd_dmabuf.cc) map the file; a "kernel"
// opens the wall while it runs.
//
// Owned by a test; one thread opens and closes.
#pragma once

#include <sys/mman.h>

#include <cstring>
#include <memory>
#include <string>

#include "common/base/check.h"
#include "common/memory/exported_memory.h"

namespace phub::testing {

class WalledMemory final : public ExportedMemory {
 public:
  // `offset`: of the memory in its "dma-buf", whole pages. Without `exports` there is none.
  static std::shared_ptr<WalledMemory> create(std::size_t size, bool exports = true,
                                              std::uint64_t offset = 0) {
    constexpr std::size_t kPage = 4096;
    const std::size_t pages = (size + kPage - 1) / kPage * kPage;
    auto made = std::shared_ptr<WalledMemory>(new WalledMemory());
    UniqueFd file(::memfd_create("walled", MFD_CLOEXEC));
    const auto length = static_cast<off_t>(offset + pages);
    PHUB_CHECK(file && ::ftruncate(file.get(), length) == 0, "a file for the memory");
    const auto map = [&](int protection) {
      void* place =
          ::mmap(nullptr, pages, protection, MAP_SHARED, file.get(), static_cast<off_t>(offset));
      PHUB_CHECK(place != MAP_FAILED, "a mapping of the memory");
      return std::span(static_cast<std::byte*>(place), size);
    };
    made->bytes = map(PROT_NONE);
    made->view_ = map(PROT_READ | PROT_WRITE);
    made->pages_ = pages;
    if (exports) {
      made->dmabuf = std::move(file);
      made->dmabuf_offset = offset;
    } else {
      made->no_dmabuf = "this GPU exports none";
    }
    return made;
  }
  ~WalledMemory() override {
    ::munmap(bytes.data(), pages_);
    ::munmap(view_.data(), pages_);
  }

  // The same bytes, for the test itself.
  std::span<std::byte> view() const { return view_; }

  // While a "kernel" runs.
  void open() const { protect(PROT_READ | PROT_WRITE); }
  void close() const { protect(PROT_NONE); }

 private:
  WalledMemory() = default;
  void protect(int protection) const {
    PHUB_CHECK(::mprotect(bytes.data(), pages_, protection) == 0, "the wall");
  }

  std::span<std::byte> view_;
  std::size_t pages_ = 0;
};

}  // namespace phub::testing
