// Rounds that need not have every worker's push. For each chunk they decide which workers are in
// the round, when it is complete, which workers get a reply, and how stale a push is.
//
// A worker's push of a chunk is also its pull. It has one reply, and the reply's round is the one
// that the worker's next push is computed from. So the wire has no round numbers. After a push a
// worker waits for its reply, as part of the round or because it is too far ahead of the slowest.
// It may not push the chunk meanwhile. So no worker is in a round twice, and no pending push is
// overwritten.
//
// If late pushes are added, no worker waits for the end of a round, which only says when pushes are
// applied. Workers that are too far ahead cannot wait in a circle, because the slowest one always
// gets its reply. If late pushes are dropped, workers wait for the round's end. Workers that are
// late for different chunks may then wait for each other. So a round times out without its quorum.
//
// With turns only one worker at a time has the reply to a chunk and has not pushed it. The reply of
// the next worker waits for that push.
//
// Data of a Shard; its core's thread only (counters: any thread). Nothing grows after set-up.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "common/base/round_policy.h"
#include "common/base/rule.h"
#include "server/chunks/rounds/grace_queue.h"
#include "server/chunks/rounds/late_counters.h"
#include "server/chunks/rounds/round_hypers.h"
#include "server/chunks/rounds/worker_progress.h"
#include "server/chunks/rounds/worker_sets.h"

namespace phub::server {

class QuorumRounds {
 public:
  enum class Standing {
    kOpen,     // too few pushes are there
    kInGrace,  // enough pushes are there, and others may still come
    kComplete,
  };
  struct Taken {
    bool counts = true;  // false: the push is dropped
    float weight = 1.0F;
  };

  // `hyper`: the job's. `waiting`: by slot, the workers whose pushes have no reply yet; it outlives
  // this. REQUIRES: the job has a quorum.
  QuorumRounds(const RoundPolicy& policy, std::uint32_t workers, std::size_t chunks,
               const Hyper& hyper, WorkerSets& waiting);

  // Takes a worker's push of a chunk that has `rounds` rounds behind it; `samples` is from its
  // Hyper. REQUIRES: the worker did not wait, and is in `waiting` now.
  Taken take(std::uint32_t slot, std::uint32_t worker, std::uint64_t rounds, float samples = 0.0F);
  // Returns the standing of the chunk's round, which has `pushes` pushes.
  Standing standing(std::uint32_t slot, std::uint32_t pushes) const;
  // Ends the chunk's round, which has used `pushes` pushes.
  void complete(std::uint32_t slot, std::uint32_t pushes);
  // Releases all workers: the chunk's first parameters are there.
  void start_all(std::uint32_t slot, std::uint64_t rounds);
  // Finds the waiting workers that get a reply now. They wait no longer.
  void release(std::uint32_t slot, std::uint64_t rounds);
  // Returns these workers, until the next call.
  std::span<const std::uint32_t> released() const { return {released_.data(), released_count_}; }

  // Removes a worker; what it has pushed counts. A quorum is at most the number of present workers,
  // so that a worker that leaves when it is done does not fail the job. The control plane decides
  // whether enough workers are left. False: none is left.
  bool lose(std::uint32_t worker);

  // Returns how often each present worker has pushed each chunk, at least.
  std::uint32_t steps() const { return progress_.steps(); }

  // Returns the present worker whose hyper-parameters are used. REQUIRES: a worker is present.
  std::uint32_t lowest() const { return progress_.lowest(); }

  const RoundPolicy& policy() const { return policy_; }
  const std::vector<LateCounters>& late() const { return late_; }  // by worker

  // Whether rounds end at some time, even if no more pushes come.
  bool has_ends() const { return !graces.empty() || !waits.empty() || !due.empty(); }
  // Returns when the first of them ends, in ticks. REQUIRES: has_ends.
  std::uint64_t first_end() const;
  // Returns its chunk, and counts why it ends. REQUIRES: has_ends.
  std::uint32_t take_first_end();

  // Returns how many workers all calls of release() have looked at.
  std::uint64_t looked_at() const { return looked_at_; }

  GraceQueue graces;  // chunks in grace
  GraceQueue waits;   // chunks without their quorum
  GraceQueue due;     // chunks whose rounds a loss has completed
  RoundCounters counters;
  RoundHypers hypers;

 private:
  std::size_t at(std::uint32_t slot, std::uint32_t worker) const {
    return slot * std::size_t{workers_} + worker;
  }
  float weight_of(std::uint32_t staleness, float samples) const;
  void release_or_withhold(std::uint32_t slot, std::uint32_t worker, std::uint64_t rounds);
  void reply_to(std::uint32_t slot, std::uint32_t worker, std::uint64_t rounds);
  void end_turn(std::uint32_t slot, std::uint32_t worker);

  const RoundPolicy policy_;
  const std::uint32_t workers_;
  const bool withholds_;  // replies of workers that are too far ahead or have no turn
  WorkerSets& waiting_;
  WorkerSets in_round_;  // by slot: the waiting workers whose pushes are in its round
  WorkerSets withheld_;  // by slot: the waiting workers that are too far ahead
  WorkerProgress progress_;
  std::vector<std::uint32_t> bases_;  // [slot][worker]: rounds behind the chunk at the last reply
  std::vector<std::uint32_t> turns_;  // by slot: the worker whose turn it is; empty: no turns
  std::vector<std::uint32_t> released_;
  std::size_t released_count_ = 0;
  std::uint64_t looked_at_ = 0;
  std::vector<LateCounters> late_;
};

}  // namespace phub::server
