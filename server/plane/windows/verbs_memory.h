// One job's memory as one RDMA device sees it: for each worker the parameters, which only we read,
// and windows of its own, one a core, which only that worker can write to and nobody can read. The
// same for each other rack that pushes sums here; and for each to which sums are pushed, those, and
// what replies land in as its window: the parameters, or the sums again where replies are sums. A
// rack is trusted with the parameters of its own job.
//
// A domain for each of these and device: a key is worth nothing on another worker's connection, be
// it guessed right (devices count them up). Made by a control thread; lives until the last
// connection that uses it is gone.
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "common/memory/memory.h"
#include "common/protocol/window_layout.h"
#include "common/transport/verbs/memory.h"
#include "common/transport/verbs/verbs_endpoint.h"
#include "server/job/memory.h"

namespace phub::server {

class VerbsMemory : public std::enable_shared_from_this<VerbsMemory> {
 public:
  // `cores`: those of this server that are served through the device.
  static Result<std::shared_ptr<VerbsMemory>> create(
      std::shared_ptr<const transport::verbs::OpenDevice> device,
      std::shared_ptr<const JobMemory> memory, const JobLayout& layout,
      const std::vector<std::uint32_t>& cores);

  // What a connection of this member to this core, one of `cores`, is made of. A member's memory is
  // registered, all at once, at its first connection. Control threads only, one at a time.
  Result<transport::VerbsRegions> of(std::uint32_t seat, std::uint32_t core);
  // What a connection to another rack is made of, for any core. As above.
  Result<transport::VerbsRegions> towards(std::uint32_t rack);
  // Of all windows; registered memory is always resident. These two: any thread.
  std::uint64_t window_bytes() const { return open_bytes_.load(std::memory_order_relaxed); }
  // Of them, in huge pages of the machine's pool.
  std::uint64_t reserved_page_bytes() const {
    return reserved_bytes_.load(std::memory_order_relaxed);
  }
  const std::shared_ptr<const WindowLayout>& window_layout(std::uint32_t seat,
                                                           std::uint32_t core) const {
    return (seat < workers_ ? for_worker_ : for_rack_).sections[core].layout;
  }
  // Of what another rack gives this one.
  const std::shared_ptr<const WindowLayout>& rack_layout(std::uint32_t core) const {
    return for_rack_.sections[core].layout;
  }

 private:
  struct Section {
    std::shared_ptr<const WindowLayout> layout;
    std::uint64_t offset = 0;  // in a member's windows
  };
  struct Windows {
    std::vector<Section> sections;  // by core
    std::uint64_t bytes = 0;        // of a member
  };
  struct Member {
    std::unique_ptr<Mapping> windows;
    transport::verbs::Domain domain;
    transport::verbs::Registration source;
    transport::verbs::Registration window;
  };

  explicit VerbsMemory(std::uint32_t workers) : workers_(workers) {}
  static Windows windows_of(const JobLayout& layout, std::size_t element_bytes,
                            const std::vector<std::uint32_t>& cores);
  Status open(Member& member, const SharedMemory& replies, std::uint64_t window_bytes) const;
  Status open_towards(Member& member) const;

  const std::uint32_t workers_;  // have the first seats
  std::shared_ptr<const transport::verbs::OpenDevice> device_;
  std::shared_ptr<const JobMemory> memory_;
  Windows for_worker_;
  Windows for_rack_;
  std::atomic<std::uint64_t> open_bytes_{0};  // of all that are open
  std::atomic<std::uint64_t> reserved_bytes_{0};
  std::vector<Member> members_;  // by seat
  std::vector<Member> above_;    // by rack
};

}  // namespace phub::server
