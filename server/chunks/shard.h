// One job's chunks on one core: aggregation, then the update rule, chunk by chunk.
//
// Made by a control thread, then used by its core's thread only (counters: any thread). Knows no
// network: it is told what arrived and says what is complete. Nothing here allocates after it is
// made.
//
// The last push of a chunk starts one pass that adds whatever is not added yet (push_sums.h) and
// applies the rule (chunk_parameters.h). Of some jobs the latter comes later: deferred_updates.h.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "common/base/counter.h"
#include "server/chunks/chunk_copying.h"
#include "server/chunks/deferred_updates.h"
#include "server/chunks/push_checks.h"
#include "server/chunks/rack_sums.h"
#include "server/chunks/rounds/quorum_rounds.h"
#include "server/chunks/sparse/rack_compression.h"
#include "server/chunks/sparse/sparse_replies.h"
#include "server/chunks/value_watch.h"

namespace phub::server {

enum class PushResult {
  kAccepted,
  kCompleted,
  kGathered,    // the last push of this rack's workers; other racks' are due
  kGoesUp,      // the last push here: the sum is to be pushed to the rack above
  kDeferred,    // the chunk's last push: its sum is there, its update is not due
  kUpdatesDue,  // the same, and now updates are due
  // ---- Of a job with a quorum: `rounds` says who is replied to, now as after kCompleted ----
  kTaken,    // it is in a round that goes on
  kOpened,   // the same, and the first of it: somebody waits for its quorum
  kQuorum,   // the same, and now the round is in grace
  kDropped,  // it was late
  kUnknownChunk,
  kBadLength,
  kDuplicate,
  kBadCount,  // of a sparse push, as are the next two: see common/protocol/sparse_push.h
  kBadIndex,
  kBadOrder,
  kBadHyper,  // a reply of the rack above has hyper-parameters that make no sense
  kTooEarly,  // a job with a quorum: the worker waits for its reply
  kCorrupt,   // a push of the chunk has not its checksum: nothing is added, and the job is to end
  kStopped
};

// Of a push that is, or has, what such a fault was found in.
PushResult result_of(wire::SparseFault fault);

class Shard {
 public:
  // `staging`: staging_buffers(layout, core) buffers; outlives it.
  Shard(const JobLayout& layout, std::uint32_t core, std::shared_ptr<JobMemory> memory,
        BufferPool& staging);
  Shard(const Shard&) = delete;
  Shard& operator=(const Shard&) = delete;

  // Takes one push. kCompleted: the chunk's new parameters are ready for everyone.
  PushResult on_push(const Push& push);
  VoteOutcome vote(std::uint32_t worker, const Vote& vote);
  // ---- Of a job that clips over several servers: what a worker tells of all gradients' norm ----
  NormOutcome tell_norm(std::uint32_t worker, double squares) {
    if (stopped_) return NormOutcome::kStopped;
    return deferred_ ? deferred_->tell_norm(worker, squares) : NormOutcome::kUnasked;
  }
  // After kDifferent: who told another number than most.
  std::uint32_t odd_teller() const { return deferred_->odd_teller(); }
  // Whether norm_word is to be told to all workers; after kDeferred or kUpdatesDue, once.
  bool take_norm_question() { return deferred_ && deferred_->take_question(); }
  std::span<const std::byte> norm_word() const { return norm_word_; }
  // Where a worker has a place for it, in bytes from its parameters on.
  std::uint64_t norm_landing() const { return norm_landing_; }

  // Neither of several racks nor with a quorum, pushes are dense, and nobody looks at them: neither
  // for values nor for checksums, one stream of each worker.
  bool is_plain() const { return is_plain_; }

  // Of a job that watches values; null: it does not. One that is to end with the first that is not
  // finite stops here: that push completes nothing, and is followed by none.
  const ValueWatch* watch() const { return watch_ ? &*watch_ : nullptr; }

  // Of a job with checksums; null: it has none. One whose push differs stops here.
  PushChecks* checks() { return checks_ ? &*checks_ : nullptr; }
  const PushChecks* checks() const { return checks_ ? &*checks_ : nullptr; }

  // ---- Of a job with a quorum; null: it has none ----
  QuorumRounds* rounds() { return rounds_ ? &*rounds_ : nullptr; }
  const QuorumRounds* rounds() const { return rounds_ ? &*rounds_ : nullptr; }
  // Completes the round that ends first, whoever is in it, and returns its chunk. REQUIRES: rounds
  // have ends, which the core tells `rounds` after kOpened and kQuorum, or are due after go_on.
  std::uint32_t end_round();
  // Whether the job goes on without this worker. If so, go_on is to be called for each chunk. It
  // finds who is released, and is true if the round is complete now, and one of those that
  // end_round() ends: of many chunks, a few at a time.
  bool lose(std::uint32_t worker);
  bool go_on(std::uint32_t slot);

  // Rounds behind the furthest chunk. Of a job with a quorum, whose chunks have no rounds together:
  // the steps of the slowest worker that is there, beyond the `first` of this job.
  std::uint64_t rounds_to_copy(std::uint64_t first) const {
    return rounds_ ? first + rounds_->steps() : copying.rounds_max();
  }

  // ---- Of a job of several racks; null: it has one ----
  RackSums* racks() { return racks_ ? &*racks_ : nullptr; }
  const ShardChunk& chunk(std::uint32_t slot) const { return chunks_[slot]; }
  // What goes up for a chunk, after kGoesUp.
  std::span<const std::byte> sum_for_above(std::uint32_t slot) const;
  // Whether racks push each other some of their sums' elements, and each applies the rule.
  bool compresses_racks() const { return compression_.has_value(); }
  // What the racks below are replied to with. REQUIRES: compresses_racks.
  std::span<const std::byte> reply_below(std::uint32_t slot) const;
  // Where a reply to it is to be put that comes from the rack at `seat`; null: none of that size is
  // due from there. REQUIRES: bytes > 0.
  std::byte* place_of_reply(std::uint32_t seat, std::uint32_t slot, std::uint32_t bytes);
  // It is there, or in `data`. kCompleted, or what is wrong with it. A buffer of the staging is
  // given back.
  PushResult take_reply(std::uint32_t slot, std::span<const std::byte> data, bool is_skipped);

  bool has_due() const { return !stopped_ && deferred_ && deferred_->has_due(); }
  // Updates are due, or will be when the norm is known.
  bool awaits_updates() const { return !stopped_ && deferred_ && deferred_->awaits(); }
  // Makes a chunk ready for its update, where that is a pass of its own (rule lamb). False: all
  // that are to be updated next are. REQUIRES: has_due.
  bool prepare_due();
  // Updates (or, after a vote against it, skips) the chunk whose update is due for longest, and
  // returns it: it is complete now. What prepare_due would do is done before. REQUIRES: has_due.
  std::uint32_t update_due();
  // Sums that wait for their updates.
  std::size_t deferred_sums() const { return deferred_ ? deferred_->sums() : 0; }
  // Whether the last update of the chunk was left out, or a part of it.
  bool was_skipped(std::uint32_t slot) const { return chunks_[slot].skipped; }

  // What to reply with for a chunk.
  std::span<const std::byte> reply(std::uint32_t slot) const {
    return parameters_.published(chunks_[slot].place);
  }
  // The same where that is smaller: what changed, for who has had all replies before.
  bool has_sparse_replies() const { return sparse_replies_.has_value(); }
  std::span<const std::byte> smallest_reply(std::uint32_t slot) const {
    const auto changed = sparse_replies_->reply(slot, chunks_[slot].place.home);
    return changed.empty() ? reply(slot) : changed;
  }
  // Where a device writes such a reply, of another size than the chunk's, in bytes from the
  // worker's parameters on; and whether a worker's window has the place.
  std::uint64_t changes_landing(std::uint32_t slot) const {
    return sparse_replies_->landing() + reply_offset(slot);
  }
  bool may_write_changes(std::uint64_t window_bytes) const {
    return sparse_replies_ && sparse_replies_->fits(window_bytes);
  }
  // Where a chunk is in the plan's arena, in bytes of the wire type.
  std::uint64_t reply_offset(std::uint32_t slot) const {
    return parameters_.arena_bytes(chunks_[slot].place);
  }
  // The same in what this server publishes.
  std::uint64_t offset_here(std::uint32_t slot) const {
    return chunks_[slot].place.home * size_of(parameters_.wire_type());
  }
  // Bytes of a push of this chunk; 0: there is no such chunk.
  std::uint32_t push_bytes(std::uint32_t slot) const {
    return slot < chunks_.size() ? parameters_.bytes(chunks_[slot].place) : 0;
  }
  // Whether a worker's push of this chunk, without a checksum, may have so many bytes: of a sparse
  // one all but its length is looked at when it is there. REQUIRES: bytes > 0.
  bool may_push(std::uint32_t slot, std::uint32_t bytes) const {
    const std::uint32_t dense = slot < unchecked_ ? parameters_.bytes(chunks_[slot].place) : 0;
    return bytes == dense || (encoding_ != Encoding::kDense && bytes < dense);
  }
  // The same of one with a checksum.
  bool may_push_checked(std::uint32_t slot, std::uint32_t bytes) const;
  // Of the sum that another rack pushes: all of it, and whether one may have so many.
  std::uint32_t rack_bytes(std::uint32_t slot) const;
  bool may_push_sum(std::uint32_t slot, std::uint32_t bytes) const;
  std::uint32_t chunks() const { return static_cast<std::uint32_t>(chunks_.size()); }

  // A worker is gone: no chunk can complete any more, and its memory must not be read again.
  void stop() { stopped_ = true; }
  bool stopped() const { return stopped_; }

  // A device of the rack above writes replies into the parameters, as soon as it has the sum. Set
  // before the first push.
  bool replies_land_unseen = false;

  ChunkCopying copying;
  Counter elements_touched;  // of chunks whose parameters are in memory: it grows with their rounds
  Counter chunks_completed;
  SkipCounters skipped;

 private:
  VoteOutcome count_vote(std::uint32_t worker, const Vote& vote);
  PushResult initialise(const Push& arrived, ShardChunk& chunk);
  bool may_be_packed(std::uint32_t bytes, const ShardChunk& chunk) const;
  bool has_right_length(const Push& push, const ShardChunk& chunk) const;
  PushResult check(Push& push, const ShardChunk& chunk);
  bool check_rest(std::uint32_t slot);
  // Whether pushes that are not staged are read where they are, with the chunk's last one.
  bool stays_in_place(const ShardChunk& chunk) const {
    return !racks_ && !rounds_ && encoding_ == Encoding::kDense &&
           chunk.sum.members <= kernels::kMaxSources;
  }
  bool is_initial(const ShardChunk& chunk) const { return has_parameters_ && !chunk.initialised; }
  // Whether what goes down for the chunk is all racks' sum.
  bool combines(const ShardChunk& chunk) const { return compression_ && !is_initial(chunk); }
  bool may_combine(const ShardChunk& chunk, std::size_t bytes) const;
  static std::span<const float> summed(const ShardChunk& chunk) {
    return {reinterpret_cast<const float*>(chunk.sum.data), chunk.place.elements};
  }
  PushResult add(const Push& push, ShardChunk& chunk);
  PushResult read_sum(const Push& push, const ShardChunk& chunk, Contribution& sum);
  void keep_back(std::uint32_t slot, std::byte* sum);
  PushResult finish_combined(std::uint32_t slot);
  PushResult take_combined(std::uint32_t slot, std::span<const std::byte> reply);
  PushResult add_own(const Push& arrived, ShardChunk& chunk);
  bool look_at_once(const Push& push, const Contribution& own, std::size_t elements);
  PushResult finish_looking(std::uint32_t slot);
  PushResult stop_for_values();
  PushResult look_at(const Push& push, std::uint32_t elements, Contribution& own);
  PushResult join_round(const Push& push, const Contribution& own, ShardChunk& chunk);
  PushResult finish(std::uint32_t slot);
  PushResult finish_own(std::uint32_t slot);
  PushResult finish_quorum_round(std::uint32_t slot);
  PushResult go_up(std::uint32_t slot);
  void begin_above(ShardChunk& chunk);
  void begin_landing(ShardChunk& chunk);
  PushResult defer(std::uint32_t slot);
  PushResult on_summed(std::uint32_t slot);
  void update(std::uint32_t slot);
  void update_deferred(std::uint32_t slot);
  void complete(std::uint32_t slot);
  void end_quorum_round(std::uint32_t slot, std::uint32_t pushes);

  const std::uint32_t workers_;  // of this rack
  const bool has_parameters_;    // its rule
  const bool restored_;          // the parameters were there before the first round
  const Encoding encoding_;      // of workers' pushes
  const bool is_plain_;          // one rack, everybody in each round, pushes dense, none looks
  const float mean_scale_;       // 1 / workers; with a quorum: 1 / the pushes of a round is meant
  bool stopped_ = false;
  BufferPool& staging_;
  ChunkParameters parameters_;
  std::span<const std::byte> norm_word_;  // empty: the job does not clip over several servers
  std::uint64_t norm_landing_ = 0;
  std::vector<ShardChunk> chunks_;
  const std::uint32_t
      unchecked_;       // slots, the first, whose pushes go without a checksum: all or none
  WorkerSets arrived_;  // by slot: whose pushes are not replied to
  PushSums sums_;       // of workers; with several racks, of racks
  std::optional<RackSums> racks_;                // none: one rack
  std::optional<RackCompression> compression_;   // none: racks' sums go whole
  std::optional<QuorumRounds> rounds_;           // none: a round has every worker's push
  std::optional<DeferredUpdates> deferred_;      // none: updates are made with the last push
  std::optional<ValueWatch> watch_;              // none: nobody looks at what is pushed
  std::optional<PushChecks> checks_;             // none: pushes have no checksums
  std::optional<SparseReplies> sparse_replies_;  // none: replies are whole
};

}  // namespace phub::server
