// Whether a worker's pushes are what it made checksums of, in a job that has them.
//
// A checksum lies behind its push (tcp: the lane puts it there; verbs: the worker), or, by chunk,
// in the memory that a local worker shares. Of each worker is kept how many pushes differ, and the
// first. Data of a Shard; its core's thread only (counters: any thread). Nothing grows after it is
// made.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "common/base/counter.h"
#include "common/protocol/window_layout.h"
#include "server/chunks/chunk/shard_chunk.h"
#include "server/job/counters.h"
#include "server/job/layout.h"

namespace phub::server {

class PushChecks {
 public:
  // The chunks outlive it.
  PushChecks(const JobLayout& layout, std::uint32_t core, const std::vector<ShardChunk>& chunks);

  // The worker's pushes land in this window. Of others, a push's checksum follows its bytes and is
  // none of them.
  void read_from(std::uint32_t worker, const std::byte* window,
                 std::shared_ptr<const WindowLayout> layout) {
    windows_[worker] = {window, std::move(layout)};
  }

  // Of a push that arrived with so many bytes.
  std::uint32_t payload_bytes(std::uint32_t worker, std::uint32_t bytes) const;
  // Whether a push of the chunk has its checksum. If not, that is found.
  bool check(std::uint32_t worker, std::uint32_t slot, std::span<const std::byte> push);

  const std::vector<WorkerCorruption>& workers() const { return workers_; }  // by seat

  Counter findings;  // of workers() is nothing to be told while it is 0

 private:
  struct Window {
    const std::byte* start = nullptr;  // null: there is none
    std::shared_ptr<const WindowLayout> layout;
  };

  const std::byte* place(std::uint32_t worker, std::uint32_t slot,
                         std::span<const std::byte> push) const;

  const std::uint64_t first_round_;  // of gradients, as a chunk counts its rounds
  const std::vector<ShardChunk>& chunks_;
  const std::shared_ptr<const Plan> plan_;
  const std::vector<std::uint32_t>& ids_;  // of the chunks, by slot
  std::vector<Window> windows_;            // by seat
  std::vector<WorkerCorruption> workers_;
};

}  // namespace phub::server
