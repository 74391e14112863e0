// What is no chunk: hyper-parameters, votes, norms and losses.
#include <cstring>

#include "common/protocol/wire.h"
#include "server/core/core.h"

namespace phub::server {

void Core::on_word(const Arrival& arrival) {
  switch (wire::slot_of(arrival.immediate)) {
    case wire::kHyperSlot:
      return on_hyper(arrival);
    case wire::kVoteSlot:
      return on_vote(arrival);
    default:
      return on_norm(arrival);
  }
}

void Core::on_hyper(const Arrival& arrival) {
  Connection& connection = *arrival.connection;
  if (arrival.bytes != sizeof(Hyper)) {
    drop_peer(connection, Drop::kBadLength, "it sent hyper-parameters of a wrong size");
    return;
  }
  Hyper hyper;
  std::memcpy(&hyper, arrival.data, sizeof(hyper));  // once: the worker may still write to it
  if (!makes_sense(hyper)) {
    return drop_peer(connection, Drop::kBadHyper,
                     "its hyper-parameters are no numbers, or out of range");
  }
  connection.hyper = hyper;
  Shard& shard = connection.job->shard;
  if (QuorumRounds* const rounds = shard.members.rounds())
    rounds->hypers.heard_from(connection.worker);
  if (shard.racks) replies_.pass_on_hyper(connection);
}

void Core::on_vote(const Arrival& arrival) {
  Connection& connection = *arrival.connection;
  JobOnCore& job = *connection.job;
  if (arrival.bytes != sizeof(Vote)) {
    return drop_peer(connection, Drop::kBadLength, "it sent a vote of a wrong size");
  }
  Vote vote;
  std::memcpy(&vote, arrival.data, sizeof(vote));  // once: the worker may still write to it
  const VoteOutcome outcome = job.shard.vote(connection.worker, vote);
  if (auto& racks = job.shard.racks; racks && racks->have_voted()) {
    replies_.go_up(job, racks->take_vote());
  }
  switch (outcome) {
    case VoteOutcome::kAccepted:
      return;
    case VoteOutcome::kUpdatesDue:
      return updates_.add(job);
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

void Core::on_norm(const Arrival& arrival) {
  Connection& connection = *arrival.connection;
  JobOnCore& job = *connection.job;
  double squares = 0.0;
  if (arrival.bytes != sizeof(squares)) {
    return drop_peer(connection, Drop::kBadLength, "it told a norm of a wrong size");
  }
  std::memcpy(&squares, arrival.data, sizeof(squares));  // once: the worker may still write to it
  switch (job.shard.tell_norm(connection.worker, squares)) {
    case NormOutcome::kAccepted:
      return;
    case NormOutcome::kKnown:
      if (job.shard.updates.has_due()) updates_.add(job);
      return;
    case NormOutcome::kStopped:
      return drops_.count(Drop::kLateWrite);
    case NormOutcome::kUnasked:
      return drop_peer(connection, Drop::kBadNorm, "it told a norm that nobody asked for");
    case NormOutcome::kMalformed:
      return drop_peer(connection, Drop::kBadNorm,
                       "it told a norm that is no number, or below that of this core alone");
    case NormOutcome::kDuplicate:
      return drop_peer(connection, Drop::kBadNorm, "it told the norm twice in one round");
    case NormOutcome::kDifferent:
      return drop_peer(*job.connections[job.shard.updates.gate()->words()->odd_one()],
                       Drop::kBadNorm,
                       "it told another norm of all gradients than the other workers");
  }
}

// Ends one worker's connection, with all of its streams. The job goes on without it if it has a
// quorum; other jobs do not notice.
void Core::drop_peer(Connection& connection, Drop cause, std::string_view reason) {
  if (connection.lost) return;
  connection.main().for_each_stream([](Connection& stream) { stream.lost = true; });
  if (cause != Drop::kCount) drops_.count(cause);
  JobOnCore& job = *connection.job;
  const bool goes_on = connection.role == PeerRole::kWorker && job.shard.lose(connection.worker);
  if (!goes_on) job.shard.stop();
  events_.push({job.job_id, connection.worker, reason, goes_on});
  connection.main().for_each_stream([&](Connection& stream) {
    connections_.fetch_sub(1, std::memory_order_relaxed);
    stream.endpoint->remove(stream.peer);
    job.ready.remove(stream);
  });
  if (goes_on) go_on(job);
  if (options_.on_event) options_.on_event();
}

// Without a worker others may be complete, or not too far ahead any more.
void Core::go_on(JobOnCore& job) {
  for (std::uint32_t slot = 0; slot < job.shard.chunks(); ++slot) {
    if (job.shard.go_on(slot)) graces_.add(job);
    replies_.release(job, slot);
  }
}

}  // namespace phub::server
