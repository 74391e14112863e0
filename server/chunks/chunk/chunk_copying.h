// Copies a core's chunks at a round's end, while rounds go on.
//
// Each chunk is copied when it has the copy's round behind it. A chunk that completes that round is
// copied at once, before anything of it changes. Chunks that rest there are copied a few at a time.
// A chunk that has begun to change (ShardChunk::is_ahead) counts as in its next round: no copy
// begins at the round that it leaves. Code that writes to parameters or state calls copy_if_due and
// enters that state. Chunks of a job with a quorum do not have the same rounds: each is copied
// as it is, once it has been initialised. Its core's thread only.
#pragma once

#include <algorithm>
#include <memory>
#include <vector>

#include "common/base/check.h"
#include "common/base/ticks.h"
#include "server/chunks/chunk/chunk_parameters.h"

namespace phub::server {

class ChunkCopying {
 public:
  // Both outlive it.
  ChunkCopying(std::vector<ShardChunk>& chunks, const ChunkParameters& parameters, bool at_rounds)
      : chunks_(chunks), parameters_(parameters), at_rounds_(at_rounds) {}

  // False: a chunk is beyond the copy's round already; `copy` is not used. REQUIRES: no copy is
  // under way; the round is not 0.
  bool begin(std::shared_ptr<JobCopy> copy) {
    if (at_rounds_ && rounds_max() > copy->round) return false;
    for (ShardChunk& chunk : chunks_) chunk.copied = false;
    copied_ = 0;
    next_ = 0;
    ticks_ = 0;
    copy_ = std::move(copy);
    return true;
  }
  // Copies up to `count` chunks that rest at that round. Returns how many are still to be copied.
  std::uint32_t copy_some(std::uint32_t count) {
    const std::size_t enough = std::min(copied_ + count, chunks_.size());
    for (std::size_t seen = 0; seen < chunks_.size() && copied_ < enough; ++seen) {
      copy_if_due(chunks_[next_]);
      next_ = (next_ + 1) % chunks_.size();
    }
    return static_cast<std::uint32_t>(chunks_.size() - copied_);
  }
  void end() { copy_.reset(); }

  // A chunk has completed a round, or something of it is about to change.
  void copy_if_due(ShardChunk& chunk) {
    if (copy_ == nullptr || chunk.copied) return;
    if (at_rounds_ ? chunk.rounds != copy_->round : chunk.rounds == 0) return;
    PHUB_DCHECK(!at_rounds_ || !chunk.is_ahead(), "the copy has this chunk already");
    const std::uint64_t start = ticks();
    parameters_.copy_to(*copy_, chunk);
    chunk.copied = true;
    ++copied_;
    ticks_ += ticks() - start;
  }

  // The most rounds that a chunk has; a chunk that is ahead counts as in its next round.
  std::uint64_t rounds_max() const {
    std::uint64_t rounds = 0;
    for (const ShardChunk& chunk : chunks_) {
      rounds = std::max(rounds, chunk.rounds + (chunk.is_ahead() ? 1 : 0));
    }
    return rounds;
  }
  std::uint64_t spent() const { return ticks_; }  // on the copy so far

 private:
  std::vector<ShardChunk>& chunks_;
  const ChunkParameters& parameters_;
  const bool at_rounds_;
  std::shared_ptr<JobCopy> copy_;  // under way, or null
  std::size_t copied_ = 0;         // chunks
  std::size_t next_ = 0;           // the chunk that copy_some looks at next
  std::uint64_t ticks_ = 0;
};

}  // namespace phub::server
