// Who pushed what is not finite, of a job that asks for it: of each worker how often, and the first
// and the last such element.
//
// A push is looked at when a sum that has it is not finite: infinities and NaNs survive every sum,
// and the sum is looked at in the pass that makes it. Only what another is added to in its own
// buffer, the first staged push of a chunk, is looked at before; and what is packed, or of a job
// with a quorum, when it comes. Data of a Shard; its core's thread only (counters: any thread).
// Nothing grows after it is made.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "common/base/counter.h"
#include "kernels/reduce.h"
#include "server/chunks/chunk/shard_chunk.h"
#include "server/job/counters.h"
#include "server/job/layout.h"

namespace phub::server {

class ValueWatch {
 public:
  // A worker's push of a chunk.
  struct Pushed {
    std::uint32_t slot;
    std::uint32_t worker;
  };

  // The chunks outlive it.
  ValueWatch(const JobLayout& layout, std::uint32_t core, const std::vector<ShardChunk>& chunks);

  // Looks at all of a push.
  void look_at(const Pushed& push, kernels::Source values, std::size_t elements);
  // The same of one that is packed as the job's encoding. REQUIRES: without fault.
  void look_at_packed(const Pushed& push, const std::byte* data);
  // The worker's vote of a round said overflow.
  void on_overflow_vote(std::uint32_t worker) {
    workers_[worker].overflow_votes += 1;
    findings.add(1);
  }

  // The job is to end.
  bool ends_job() const { return fails_ && has_found_; }
  const std::vector<WorkerValues>& workers() const { return workers_; }  // by seat

  Counter findings;  // of workers() is nothing to be told while it is 0

 private:
  void found(const Pushed& push, std::size_t element, float value);
  NotFinite at(std::uint32_t slot, std::size_t element, float value) const;

  const bool fails_;
  const std::uint64_t first_round_;  // of gradients, as a chunk counts its rounds
  const DataType type_;              // of what workers push
  const Encoding encoding_;
  const std::vector<ShardChunk>& chunks_;
  const std::shared_ptr<const Plan> plan_;
  const std::vector<std::uint32_t>& ids_;  // of the chunks, by slot
  std::vector<WorkerValues> workers_;
  bool has_found_ = false;
};

}  // namespace phub::server
