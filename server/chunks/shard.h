// One job's chunks on one core: aggregation, then the update rule, chunk by chunk.
//
// Made by a control thread, then used by its core's thread only (counters: any thread). Knows no
// network: it is told what arrived and says what is complete. Nothing here allocates after create.
//
// A push that the transport staged (tcp) is folded into the chunk's sum while it is hot: the first
// one's buffer becomes the sum, so it is not copied. A push that stays in the worker's memory (shm)
// is left there. The last arrival starts one pass that adds whatever is not folded yet and applies
// the rule. A job that holds its sums (lars, loss scaling) does the latter later: see
// deferred_updates.h and shard_deferred.cc.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "common/base/counter.h"
#include "common/plan/plan.h"
#include "kernels/reduce.h"
#include "server/chunks/deferred_updates.h"
#include "server/chunks/ready_list.h"
#include "server/chunks/round_times.h"
#include "server/chunks/worker_sets.h"
#include "server/job/buffer_pool.h"
#include "server/job/copy.h"
#include "server/job/counters.h"
#include "server/job/layout.h"
#include "server/job/memory.h"
#include "server/sharing/arrival_queue.h"
#include "server/sharing/fair_share.h"

namespace phub::server {

struct Push {
  std::uint32_t worker;
  std::uint32_t slot;
  std::byte* data;  // if staged, a buffer from take_push_buffer, which the shard takes back
  std::uint32_t bytes;
  bool staged;
  const Hyper* hyper;  // what worker 0 last set; ignored from others
};

struct WorkerCounters {
  Counter pushes;
  Counter bytes_received;
  Counter bytes_sent;
};

enum class PushResult {
  kAccepted,
  kCompleted,
  kDeferred,    // the chunk's last push: its sum is there, its update is not due
  kReleasable,  // the same, and now there are chunks to release
  kUnknownChunk,
  kBadLength,
  kDuplicate,
  kStopped
};

enum class VoteOutcome {
  kAccepted,
  kReleasable,  // the last one: there are chunks to release
  kUnasked,     // the job does not vote, or has nothing here
  kMalformed,
  kDuplicate,
  kOtherScale,  // not the other workers' loss scale
  kStopped
};

class Shard : public FairShare::Flow {
 public:
  static Result<std::unique_ptr<Shard>> create(const JobLayout& shape, std::uint32_t core,
                                               std::shared_ptr<JobMemory> memory);
  ~Shard();

  // Takes one push. kCompleted: the chunk's new parameters are ready for everyone.
  PushResult on_push(const Push& push);

  // ---- jobs that hold their sums ----
  VoteOutcome vote(std::uint32_t worker, const Vote& vote);
  // Updates (or, after a vote against it, skips) up to `count` chunks that are due, at most
  // DeferredUpdates::kReleasedMax, in the order in which they became due. They are complete now;
  // valid until the next call.
  std::span<const std::uint32_t> release(std::uint32_t count);
  bool has_releasable() const { return deferred_ != nullptr && !deferred_->due.empty(); }
  bool votes() const {
    return deferred_ != nullptr && deferred_->scale.kind == LossScaling::kVoted;
  }
  LossScaling loss_scaling() const {
    return deferred_ ? deferred_->scale.kind : LossScaling::kNone;
  }
  // Whether the last update of the chunk was left out, or a part of it.
  bool was_skipped(std::uint32_t slot) const { return chunks_[slot].skipped; }

  // What to reply with for a chunk.
  std::span<const std::byte> reply(std::uint32_t slot) const;

  // Where a chunk is in the plan's arena, in bytes of the wire type.
  std::uint64_t reply_offset(std::uint32_t slot) const {
    return chunks_[slot].arena_offset * size_of(wire_type_);
  }

  // Bytes of a push of this chunk; 0: there is no such chunk.
  std::uint32_t push_bytes(std::uint32_t slot) const;

  // For a push that is being read; null: the worker sends more than it may, for the last buffer is
  // for a sum.
  std::byte* take_push_buffer() { return buffers_->free() > 1 ? buffers_->take() : nullptr; }
  std::byte* take_buffer() { return buffers_->take(); }
  void give_buffer(std::byte* buffer) { buffers_->give(buffer); }

  // More staging is in use than a job in step needs, and so many buffers.
  bool staging_exceeds(std::size_t allowance) const {
    return buffers_->in_use() > buffers_in_step() + allowance;
  }
  // From now on so many buffers more than are in use.
  void allow_staging(std::size_t more) {
    staging_allowance = more + buffers_->in_use() - std::min(buffers_->in_use(), buffers_in_step());
  }
  // Of which so many buffers at most are a job in step's. Before anything arrives; by default it
  // is a few for each worker and a few megabytes.
  void limit_staging(std::size_t buffers) { staging_budget_ = buffers; }
  // Whether this connection's worker has pushed more than the slowest one that is connected.
  bool is_ahead(const Connection& connection) const;
  // Whether the slowest worker has pushed a chunk that another has not.
  bool is_slowest_waiting() const;

  // ---- copying at a round's end, while rounds go on ----
  // From now on each chunk is copied when it has `copy->round` rounds behind it: as it completes
  // that round, or before its next update. False: a chunk is beyond that round already; `copy` is
  // not used. REQUIRES: no copy is under way; the round is not 0.
  bool begin_copy(std::shared_ptr<JobCopy> copy);
  // Copies up to `count` chunks that rest at that round. Returns how many are still to be copied.
  std::uint32_t copy_some(std::uint32_t count);
  void end_copy() { copy_.reset(); }
  std::uint64_t rounds_max() const;                         // of any chunk
  std::uint64_t copy_ticks() const { return copy_ticks_; }  // what copying took so far

  // A worker is gone: no chunk can complete any more, and its memory must not be read again.
  void stop() { stopped_ = true; }
  bool stopped() const { return stopped_; }

  std::uint32_t chunks() const { return static_cast<std::uint32_t>(chunks_.size()); }
  std::uint32_t workers() const { return workers_; }
  const Hyper& initial_hyper() const { return hyper_; }
  const JobMemory& memory() const { return *memory_; }
  std::uint64_t job_id() const { return job_id_; }
  std::uint64_t tenant_id() const { return tenant_id_; }
  std::uint32_t weight() const { return weight_; }
  std::uint32_t epoch() const { return epoch_; }
  DataType wire_type() const { return wire_type_; }
  RuleKind rule() const { return rule_; }

  // The core's: this job's connections, by worker; null where there was none yet. One that is lost
  // stays until the shard is detached, for pushes of its worker may wait for their turn.
  std::vector<std::unique_ptr<Connection>> connections;
  // The core's: what waits for a turn, and the job's times.
  std::unique_ptr<ArrivalQueue> arrivals;
  std::unique_ptr<RoundTimes> times;
  ReadyList ready;            // connections that have something to be read
  bool is_releasing = false;  // it is in the core's list of those
  // Buffers beyond its budget, until it is back within it: holding workers back stopped it.
  std::size_t staging_allowance = 0;

  Counter elements_touched;  // of chunks whose parameters are in memory: it grows with their rounds
  Counter chunks_completed;
  Counter rounds_skipped;                       // by the workers' votes
  Counter updates_skipped;                      // of single chunks: the sum was not finite
  std::vector<WorkerCounters> worker_counters;  // by worker
  std::size_t staging_bytes() const { return buffers_->touched_bytes(); }
  std::size_t buffers_in_use() const { return buffers_->in_use(); }

 private:
  struct Contribution {
    std::byte* data = nullptr;
    bool staged = false;
  };
  // A run of elements with one weight decay.
  struct DecayRun {
    std::uint32_t offset;
    std::uint32_t elements;
    float weight_decay;
  };
  struct ChunkState {
    std::uint64_t arena_offset = 0;  // the plan's
    std::uint64_t home = 0;          // in this server's memory
    std::uint32_t elements = 0;
    std::uint32_t first_run = 0;
    std::uint32_t run_count = 0;
    std::uint32_t count = 0;   // pushes of this round
    std::uint32_t folded = 0;  // contributions [0, folded) are in `sum`
    bool initialised = false;  // the first round of a rule with parameters is over
    std::uint64_t rounds = 0;  // that are behind it
    bool copied = false;       // into copy_
    bool skipped = false;      // the last update was left out, or a part of it
    std::byte* sum = nullptr;  // a staging buffer
    DataType sum_type = DataType::kFloat32;
    Hyper hyper;  // of this round
  };

  Shard(const JobLayout& shape, std::shared_ptr<JobMemory> memory);
  void add_chunk(const JobLayout& shape, const Chunk& chunk);
  PushResult initialise(ChunkState& chunk, const Push& push);
  void fold(ChunkState& chunk, Contribution* contributions);
  void fold_in_place(ChunkState& chunk, Contribution* contributions);
  void fold_many(ChunkState& chunk, Contribution* contributions);
  void add_up(ChunkState& chunk, Contribution* contributions, std::uint32_t count);
  void finish(ChunkState& chunk, Contribution* contributions);
  std::size_t sources_of(const ChunkState& chunk, const Contribution* contributions,
                         std::uint32_t offset, std::span<kernels::Source> sources) const;
  void give_contributions(Contribution* contributions);
  void create_deferred(const JobLayout& shape, std::uint32_t core);
  PushResult defer(std::uint32_t slot);
  void sum_up(ChunkState& chunk, Contribution* contributions);
  bool is_due(const DeferredUpdates::Group& group) const;
  void measure_parameters(const ChunkState& chunk);
  void prepare(DeferredUpdates::Group& group);
  void update_held(std::uint32_t slot);
  bool update_run(const ChunkState& chunk, std::uint32_t run, const Hyper& hyper);
  Hyper unscaled_hyper(const ChunkState& chunk) const;
  void end_chunk_of_round();
  void publish(const ChunkState& chunk);
  void reset(ChunkState& chunk);
  void restore(ChunkState& chunk, const JobCopy& initial);
  void copy_if_due(ChunkState& chunk);
  std::size_t buffers_in_step() const {
    return staging_budget_ + (deferred_ ? deferred_->sums : 0);
  }
  Contribution* contributions_of(std::uint32_t slot) { return &contributions_[slot * workers_]; }

  std::uint64_t job_id_;
  std::uint64_t tenant_id_;
  std::uint32_t weight_;
  std::uint32_t epoch_;
  std::uint32_t workers_;
  DataType wire_type_;
  RuleKind rule_;
  Hyper hyper_;
  bool deterministic_;
  bool stopped_ = false;
  std::shared_ptr<JobMemory> memory_;
  std::unique_ptr<BufferPool> buffers_;
  std::size_t staging_budget_ = 0;  // buffers
  std::uint64_t gathered_ = 0;      // chunks whose last push has come, of all rounds
  std::vector<ChunkState> chunks_;
  WorkerSets arrived_;  // by slot: whose pushes of this round are there
  std::vector<DecayRun> runs_;
  std::unique_ptr<DeferredUpdates> deferred_;  // null: updates are made with the last push
  std::vector<Contribution> contributions_;    // [chunk][position]
  bool restored_ = false;                      // the parameters were there before the first round
  std::shared_ptr<JobCopy> copy_;              // under way, or null
  std::uint32_t copied_ = 0;                   // chunks
  std::uint32_t copy_next_ = 0;                // the chunk that copy_some looks at next
  std::uint64_t copy_ticks_ = 0;
};

}  // namespace phub::server
