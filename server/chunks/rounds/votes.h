// The workers' votes on one round of a job, as one core counts them: whether all gradients are
// finite, with the loss scale that they have. Its core's thread only; nothing grows.
#pragma once

#include <cmath>
#include <cstdint>

#include "common/base/loss_scale.h"
#include "server/chunks/rounds/worker_sets.h"

namespace phub::server {

enum class VoteOutcome {
  kAccepted,
  kUpdatesDue,  // the last one: updates are due
  kUnasked,     // the job does not vote, or has nothing here
  kMalformed,
  kDuplicate,
  kOtherScale,  // not the other workers' loss scale
  kStopped
};

class Votes {
 public:
  // On the round of chunks that have `round` rounds behind them, and then on those that follow.
  Votes(std::uint32_t workers, std::size_t chunks, std::uint64_t round)
      : workers_(workers), chunks_(chunks), voted_(1, workers), round_(round), left_(chunks) {}

  VoteOutcome add(std::uint32_t worker, const Vote& vote) {
    const bool is_scale = std::isfinite(vote.loss_scale) && vote.loss_scale > 0.0F;
    if (!is_scale || vote.overflow > 1) return VoteOutcome::kMalformed;
    if (voted_.contains(0, worker)) return VoteOutcome::kDuplicate;
    if (count_ != 0 && vote.loss_scale != loss_scale_) return VoteOutcome::kOtherScale;
    loss_scale_ = vote.loss_scale;
    voted_.insert(0, worker);
    ++count_;
    against_ = against_ || vote.overflow != 0;
    return VoteOutcome::kAccepted;
  }

  bool are_all() const { return count_ == workers_; }
  std::uint64_t round() const { return round_; }
  bool are_against() const { return against_; }     // one at least
  float loss_scale() const { return loss_scale_; }  // everybody's

  // A chunk was updated or skipped. True: it was the round's last; the next round's votes follow.
  bool end_chunk() {
    if (--left_ > 0) return false;
    voted_.clear(0);
    ++round_;
    left_ = chunks_;
    count_ = 0;
    against_ = false;
    return true;
  }

 private:
  std::uint32_t workers_;
  std::size_t chunks_;
  WorkerSets voted_;  // one set
  std::uint64_t round_;
  std::size_t left_;         // chunks of the round, neither updated nor skipped
  std::uint32_t count_ = 0;  // votes
  bool against_ = false;
  float loss_scale_ = 1.0F;
};

}  // namespace phub::server
