// What is no chunk: hyper-parameters, votes and norms.
#include <algorithm>
#include <array>
#include <cstring>

#include "common/protocol/wire.h"
#include "server/core/dispatch.h"

namespace phub::server {
namespace {

std::string_view fault_of(VoteOutcome outcome) {
  switch (outcome) {
    case VoteOutcome::kUnasked:
      return "it voted in a job without votes";
    case VoteOutcome::kMalformed:
      return "its vote makes no sense";
    case VoteOutcome::kDuplicate:
      return "it voted twice in one round";
    case VoteOutcome::kOtherScale:
      return "its vote has another loss scale than the other workers'";
    case VoteOutcome::kAccepted:
    case VoteOutcome::kUpdatesDue:
    case VoteOutcome::kStopped:
      break;
  }
  return {};
}

std::string_view fault_of(NormOutcome outcome) {
  switch (outcome) {
    case NormOutcome::kUnasked:
      return "it told a norm that nobody asked for";
    case NormOutcome::kMalformed:
      return "it told a norm that is no number, or below that of this core alone";
    case NormOutcome::kDuplicate:
      return "it told the norm twice in one round";
    case NormOutcome::kDifferent:
      return "it told another norm of all gradients than the other workers";
    case NormOutcome::kAccepted:
    case NormOutcome::kKnown:
    case NormOutcome::kStopped:
      break;
  }
  return {};
}

}  // namespace

const Dispatch::Word& Dispatch::word_of(std::uint32_t slot) {
  static constexpr std::array<Word, 3> kWords = {{
      {wire::kHyperSlot, &Dispatch::on_hyper, "it sent hyper-parameters of a wrong size"},
      {wire::kVoteSlot, &Dispatch::on_vote, "it sent a vote of a wrong size"},
      {wire::kNormSlot, &Dispatch::on_norm, "it told a norm of a wrong size"},
  }};
  const auto* const found =
      std::ranges::find_if(kWords, [&](const Word& word) { return word.slot == slot; });
  PHUB_CHECK(found != kWords.end(), "a control slot has a word");
  return *found;
}

void Dispatch::on_word(const Arrival& arrival) {
  const std::uint32_t slot = wire::slot_of(arrival.immediate);
  const Word& word = word_of(slot);
  if (arrival.bytes != wire::word_bytes(slot)) {
    return losses_.drop(*arrival.connection, Drop::kBadLength, word.wrong_size);
  }
  (this->*word.take)(*arrival.connection, arrival.data);
}

// These three copy what `data` has once: the worker may still write to it.
void Dispatch::on_hyper(Connection& connection, const std::byte* data) {
  Hyper hyper;
  std::memcpy(&hyper, data, sizeof(hyper));
  if (!makes_sense(hyper)) {
    return losses_.drop(connection, Drop::kBadHyper,
                        "its hyper-parameters are no numbers, or out of range");
  }
  connection.hyper = hyper;
  Shard& shard = connection.job->shard;
  if (QuorumRounds* const rounds = shard.members.rounds()) {
    rounds->hypers.heard_from(connection.worker);
  }
  // Racks that make rounds by themselves have those of their own workers.
  if (shard.racks && !shard.outer) replies_.pass_on_hyper(connection);
}

void Dispatch::on_vote(Connection& connection, const std::byte* data) {
  JobOnCore& job = *connection.job;
  Vote vote;
  std::memcpy(&vote, data, sizeof(vote));
  const VoteOutcome outcome = job.shard.vote(connection.worker, vote);
  if (auto& racks = job.shard.racks; racks && racks->have_voted()) {
    replies_.go_up(job, racks->take_vote());
    if (job.shard.has_held()) due_.add(job);
  }
  if (outcome == VoteOutcome::kUpdatesDue) due_.add(job);
  if (outcome == VoteOutcome::kStopped) losses_.count(Drop::kLateWrite);
  const std::string_view fault = fault_of(outcome);
  if (!fault.empty()) losses_.drop(connection, Drop::kBadVote, fault);
}

void Dispatch::on_norm(Connection& connection, const std::byte* data) {
  JobOnCore& job = *connection.job;
  double squares = 0.0;
  std::memcpy(&squares, data, sizeof(squares));
  const NormOutcome outcome = job.shard.tell_norm(connection.worker, squares);
  if (outcome == NormOutcome::kKnown && job.shard.updates.has_due()) due_.add(job);
  if (outcome == NormOutcome::kStopped) losses_.count(Drop::kLateWrite);
  const std::string_view fault = fault_of(outcome);
  if (fault.empty()) return;
  const bool is_other = outcome == NormOutcome::kDifferent;
  Connection& at_fault =
      is_other ? *job.connections[job.shard.updates.gate()->words()->odd_one()] : connection;
  losses_.drop(at_fault, Drop::kBadNorm, fault);
}

}  // namespace phub::server
