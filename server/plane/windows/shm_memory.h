// What the workers of one job that run on this machine share with its server: the memory that each
// pushes from, mapped once however many cores read it, and a channel for each connection. The same
// of the servers of other racks here, which share their sums, as server/job/memory.h has them.
//
// Sizes are the plan's, to the byte, and so is the place of each push: what a worker shares is no
// more than the job's own gradients. Made and used by control threads, one at a time; connections
// refer to the mappings, which stay here until the job is removed, so that no core unmaps them.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "common/memory/memory.h"
#include "common/protocol/window_layout.h"
#include "common/transport/shm/shm_endpoint.h"
#include "server/job/memory.h"

namespace phub::server {

class ShmMemory {
 public:
  explicit ShmMemory(const JobLayout& layout);

  // What a worker offers with its handshake.
  struct Offer {
    std::uint32_t worker = 0;  // its seat
    std::uint32_t core = 0;
    std::uint32_t channel_capacity = 0;
    std::uint64_t memory_bytes = 0;
    int channel_fd = -1;
    int memory_fd = -1;
  };
  // A connection without its socket. Errors: kInvalidArgument names what differs from the plan.
  Result<transport::ShmConnection> connect(const Offer& offer, const JobMemory& memory);

  // Where a connection's pushes are counted from: the member's line for this core.
  std::byte* line(std::uint32_t worker, std::uint32_t core) const;
  // REQUIRES: the member's connection to the core was made.
  const std::shared_ptr<const WindowLayout>& window_layout(std::uint32_t worker,
                                                           std::uint32_t core) const {
    return (is_rack(worker) ? rack_layouts_ : layouts_)[core];
  }
  // Of a connection to another rack: its mappings.
  void keep(const transport::ShmConnection& above) {
    above_.push_back(above.peer_memory);
    above_.push_back(above.channel);
  }

 private:
  struct Worker {
    std::shared_ptr<Mapping> memory;
    std::pair<std::uint64_t, std::uint64_t> file;  // device and inode: which memory it is
    std::vector<std::shared_ptr<Mapping>> channels;
  };

  bool is_rack(std::uint32_t worker) const { return worker >= workers_here_; }
  Status check(const Offer& offer, std::uint64_t memory_bytes) const;
  WindowLayout layout_for(const Offer& offer, const JobMemory& memory) const;
  Result<std::shared_ptr<Mapping>> memory_of(const Offer& offer);

  std::shared_ptr<const Plan> plan_;
  std::uint32_t server_;
  std::uint32_t workers_here_;
  std::size_t element_bytes_;
  bool checksums_;
  std::uint64_t memory_bytes_;
  std::vector<std::shared_ptr<const WindowLayout>> layouts_;       // by core; null: no worker yet
  std::vector<std::shared_ptr<const WindowLayout>> rack_layouts_;  // the same of racks
  std::vector<Worker> workers_;                                    // by seat
  std::vector<std::shared_ptr<Mapping>> above_;
};

}  // namespace phub::server
