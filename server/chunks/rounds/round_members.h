// The members of a chunk's round: every member, or those whom a quorum takes (quorum_rounds.h).
//
// A member is one of this rack's workers, or a rack below. Data of a Shard; its core's thread only.
#pragma once

#include <optional>

#include "server/chunks/rounds/quorum_rounds.h"
#include "server/job/layout.h"

namespace phub::server {

class RoundMembers {
 public:
  RoundMembers(const JobLayout& layout, std::size_t chunks) : waiting_(chunks, seats(layout)) {
    if (layout.rounds.waits_for_all()) return;
    rounds_.emplace(layout.rounds, layout.workers, chunks, layout.hyper, waiting_);
  }
  RoundMembers(const RoundMembers&) = delete;
  RoundMembers& operator=(const RoundMembers&) = delete;

  // A member pushed the chunk. False: it still waits for the reply to its last push of it.
  bool arrive(std::uint32_t slot, std::uint32_t seat) { return waiting_.insert(slot, seat); }

  // The chunk has so many rounds behind it now; so many pushes were in the last one. 0: it was the
  // round of initial parameters.
  void end_round(std::uint32_t slot, std::uint64_t rounds, std::uint32_t pushes) {
    if (!rounds_) return waiting_.clear(slot);
    if (pushes == 0) return rounds_->start_all(slot, rounds);
    rounds_->complete(slot, pushes);
    rounds_->release(slot, rounds);
  }

  // Null: the job has no quorum, so each round has every member's push.
  QuorumRounds* rounds() { return rounds_ ? &*rounds_ : nullptr; }
  const QuorumRounds* rounds() const { return rounds_ ? &*rounds_ : nullptr; }

 private:
  WorkerSets waiting_;  // by slot: members that wait for a reply to their push
  std::optional<QuorumRounds> rounds_;
};

}  // namespace phub::server
