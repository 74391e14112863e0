// Rounds that need not have every worker's push: who is in a chunk's round, when it is complete,
// who is replied to, and how old what is pushed is.
//
// A worker's push of a chunk is also its pull and has one reply, which says which round its next
// push is computed from: nothing of this is on the wire. A worker that has pushed a chunk waits for
// its reply, as part of the round or because it is too far ahead of the slowest; it may not push
// the chunk meanwhile. So nobody is twice in a round, and nothing that waits is overwritten.
//
// Where late pushes are added, nobody waits for a round's end, which only says when pushes are
// applied. Who is too far ahead of the slowest waits in no circle: the slowest is never withheld
// its reply. Where they are dropped, workers wait as in rounds of all; and who was late for one
// chunk and not for another may wait for who was late the other way round. So a round goes on
// without its quorum when its patience is over.
//
// With turns a chunk has one worker at a time that has a reply and has not pushed: the next one's
// waits for its push.
//
// Data of a Shard; its core's thread only (counters: any thread). Nothing grows after it is made.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "common/base/round_policy.h"
#include "common/base/rule.h"
#include "server/chunks/rounds/grace_queue.h"
#include "server/chunks/rounds/late_counters.h"
#include "server/chunks/rounds/round_hypers.h"
#include "server/chunks/rounds/worker_sets.h"

namespace phub::server {

class QuorumRounds {
 public:
  enum class Standing {
    kOpen,     // too few are there
    kInGrace,  // enough are, and others may still come
    kComplete,
  };
  struct Taken {
    bool counts = true;  // false: it is dropped
    float weight = 1.0F;
  };

  // `hyper`: the job's. `waiting`: by slot, whose pushes have no reply yet; outlives it. REQUIRES:
  // a quorum.
  QuorumRounds(const RoundPolicy& policy, std::uint32_t workers, std::size_t chunks,
               const Hyper& hyper, WorkerSets& waiting);

  // A worker pushed a chunk that has so many rounds behind it; `samples` as it said (Hyper).
  // REQUIRES: it did not wait, and is in `waiting` now.
  Taken take(std::uint32_t slot, std::uint32_t worker, std::uint64_t rounds, float samples = 0.0F);
  // Of the chunk's round, that has so many pushes.
  Standing standing(std::uint32_t slot, std::uint32_t pushes) const;
  // The chunk's round is over, and has used so many pushes.
  void complete(std::uint32_t slot, std::uint32_t pushes);
  // The first parameters are there, for everybody.
  void start_all(std::uint32_t slot, std::uint64_t rounds);
  // Finds who of those who wait is to have the chunk now; they wait no longer.
  void release(std::uint32_t slot, std::uint64_t rounds);
  // That is who, until the next call.
  std::span<const std::uint32_t> released() const { return {released_.data(), released_count_}; }

  // The worker is gone; what it has pushed counts. A quorum is at most of those who are left, for
  // who has left when it was done takes nobody along; whether enough are left of those who were
  // lost is for the control plane to say. False: nobody is.
  bool lose(std::uint32_t worker);

  // Of each chunk as many pushes of each worker that is there have come, at least.
  std::uint32_t steps() const;

  // Of those who are there: whose hyper-parameters hold. REQUIRES: somebody is.
  std::uint32_t lowest() const;

  const RoundPolicy& policy() const { return policy_; }
  const std::vector<LateCounters>& late() const { return late_; }  // by worker

  // Whether rounds end at some time, whoever comes; when the first does. REQUIRES: some do.
  bool has_ends() const { return !graces.empty() || !waits.empty() || !due.empty(); }
  std::uint64_t first_end() const;
  // Its chunk.
  std::uint32_t take_first_end();

  // Workers that release() has looked at, of all calls.
  std::uint64_t looked_at() const { return looked_at_; }

  GraceQueue graces;  // chunks in grace
  GraceQueue waits;   // chunks without their quorum
  GraceQueue due;     // chunks whose rounds a loss has completed
  RoundCounters counters;
  RoundHypers hypers;

 private:
  // Of a chunk: who has pushed it least.
  struct Slowest {
    std::uint32_t pushes = 0;
    std::uint32_t workers = 0;  // that have pushed it so often
    bool has_moved = false;     // since the last release
  };

  std::size_t at(std::uint32_t slot, std::uint32_t worker) const {
    return slot * std::size_t{workers_} + worker;
  }
  float weight_of(std::uint32_t staleness, float samples) const;
  void release_or_withhold(std::uint32_t slot, std::uint32_t worker, std::uint64_t rounds);
  void reply_to(std::uint32_t slot, std::uint32_t worker, std::uint64_t rounds);
  void end_turn(std::uint32_t slot, std::uint32_t worker);
  void leave_slowest(std::uint32_t slot, std::uint32_t pushes);
  Slowest find_slowest(std::uint32_t slot) const;

  const RoundPolicy policy_;
  const std::uint32_t workers_;
  const bool withholds_;  // replies: of who is too far ahead, or has no turn
  WorkerSets& waiting_;
  WorkerSets in_round_;                // by slot: of those who wait, whose pushes are in its round
  WorkerSets withheld_;                // by slot: of those who wait, who is too far ahead
  WorkerSets lost_;                    // one set
  std::uint32_t present_;              // workers that are not lost
  std::vector<std::uint32_t> bases_;   // [slot][worker]: rounds behind the chunk at the last reply
  std::vector<std::uint32_t> pushes_;  // [slot][worker], of all rounds
  std::vector<Slowest> slowest_;       // by slot; empty: staleness has no bound
  std::vector<std::uint32_t> turns_;   // by slot: whose turn it is; empty: there are none
  std::vector<std::uint32_t> released_;
  std::size_t released_count_ = 0;
  std::uint64_t looked_at_ = 0;
  std::vector<LateCounters> late_;
};

}  // namespace phub::server
