// One job's memory as one RDMA device sees it: for each worker the parameters, which only we read,
// and windows of its own, one a core, which only that worker can write to and nobody can read.
//
// A domain for each worker and device: a key is worth nothing on another worker's connection, be it
// guessed right (devices count them up). Made by a control thread; lives until the last connection
// that uses it is gone.
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
      std::shared_ptr<const JobMemory> memory, const JobLayout& shape,
      const std::vector<std::uint32_t>& cores);

  // What a connection of this worker to this core, one of `cores`, is made of. A worker's memory is
  // registered, all at once, at its first connection. Control threads only, one at a time.
  Result<transport::VerbsRegions> of(std::uint32_t worker, std::uint32_t core);
  // Of all windows; registered memory is always resident. These two: any thread.
  std::uint64_t window_bytes() const { return open_bytes_.load(std::memory_order_relaxed); }
  // Of them, in huge pages of the machine's pool.
  std::uint64_t reserved_page_bytes() const {
    return reserved_bytes_.load(std::memory_order_relaxed);
  }
  const std::shared_ptr<const WindowLayout>& landing(std::uint32_t core) const {
    return sections_[core].landing;
  }

 private:
  struct Section {
    std::shared_ptr<const WindowLayout> landing;
    std::uint64_t offset = 0;  // in a worker's windows
  };
  struct Worker {
    std::unique_ptr<Mapping> windows;
    transport::verbs::Domain domain;
    transport::verbs::Registration parameters;
    transport::verbs::Registration window;
  };

  VerbsMemory() = default;
  Status open(Worker& worker) const;

  std::shared_ptr<const transport::verbs::OpenDevice> device_;
  std::shared_ptr<const JobMemory> memory_;
  std::vector<Section> sections_;             // by core
  std::uint64_t window_bytes_ = 0;            // of a worker
  std::atomic<std::uint64_t> open_bytes_{0};  // of all that are open
  std::atomic<std::uint64_t> reserved_bytes_{0};
  std::vector<Worker> workers_;  // by index
};

}  // namespace phub::server
