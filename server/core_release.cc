// A Core's part for jobs that hold their sums: votes come in, and updates that are due are made, a
// few in each round of the core, so that answers and other jobs do not wait for a whole model.
#include <cstring>

#include "common/wire.h"
#include "server/core.h"

namespace phub::server {

void Core::on_vote(const Arrival& arrival) {
  Connection& connection = *arrival.connection;
  Shard& shard = *connection.shard;
  if (arrival.bytes != sizeof(Vote)) {
    return drop_peer(connection, Drop::kBadLength, "it sent a vote of a wrong size");
  }
  Vote vote;
  std::memcpy(&vote, arrival.data, sizeof(vote));  // once: the worker may still write to it
  switch (shard.vote(connection.worker, vote)) {
    case VoteOutcome::kAccepted:
      return;
    case VoteOutcome::kReleasable:
      return release_soon(shard);
    case VoteOutcome::kStopped:
      return drops_.count(Drop::kLateWrite);
    case VoteOutcome::kUnasked:
      return drop_peer(connection, Drop::kBadVote, "it voted in a job without votes");
    case VoteOutcome::kMalformed:
      return drop_peer(connection, Drop::kBadVote, "its vote makes no sense");
    case VoteOutcome::kDuplicate:
      return drop_peer(connection, Drop::kBadVote, "it voted twice in one round");
    case VoteOutcome::kOtherScale:
      return drop_peer(connection, Drop::kBadVote,
                       "its vote has another loss scale than the other workers'");
  }
}

void Core::release_soon(Shard& shard) {
  if (shard.is_releasing) return;
  shard.is_releasing = true;
  releasing_.push_back(&shard);
}

// Updates of each job that has some due, for a turn's time; while others want the core, only of
// those whose turn can pay for it.
void Core::release() {
  for (Shard* const shard : releasing_) {
    if (shares_.awake() > 1 && shard->is_awake() && shares_.owed(*shard) == 0) continue;
    const std::uint64_t start = ticks();
    do {
      for (const std::uint32_t slot : shard->release(1)) {
        shard->times->completed(slot, ticks());
        on_complete(*shard, slot);
      }
    } while (!shard->stopped() && shard->has_releasable() && ticks() - start < turn_ticks_);
    const std::uint64_t spent = ticks() - start;
    shard->times->worked(spent);
    if (shares_.awake() > 0) shares_.wake(*shard);  // others wait: it owes them this
    shares_.charge(*shard, spent);
  }
  std::erase_if(releasing_, [](Shard* shard) {
    shard->is_releasing = !shard->stopped() && shard->has_releasable();
    return !shard->is_releasing;
  });
}

}  // namespace phub::server
