#include "server/core/dispatch.h"

#include <algorithm>
#include <array>
#include <iterator>

namespace phub::server {
namespace {

// What a push or a reply was that is refused, and how its sender is told of.
struct Refusal {
  PushResult result;
  Drop cause;
  std::string_view push;   // empty: it is counted, and the connection stays
  std::string_view reply;  // the same of what came from the rack above
};

constexpr Refusal kRefusals[] = {
    {PushResult::kStopped, Drop::kLateWrite, {}, {}},
    // The control plane, which looks at the findings, ends the job.
    {PushResult::kCorrupt, Drop::kBadChecksum, {}, {}},
    {PushResult::kBadCount, Drop::kBadSparse,
     "it pushed a sparse chunk whose count is not that of its length",
     "it replied with a sparse sum whose count is not that of its length"},
    {PushResult::kBadIndex, Drop::kBadSparse,
     "it pushed a sparse chunk with an index outside of the chunk",
     "it replied with a sparse sum with an index outside of the chunk"},
    {PushResult::kBadOrder, Drop::kBadSparse,
     "it pushed a sparse chunk whose indices do not ascend",
     "it replied with a sparse sum whose indices do not ascend"},
    {PushResult::kBadHyper,
     Drop::kBadHyper,
     {},
     "it replied with hyper-parameters that are no numbers, or out of range"},
    {PushResult::kUnknownChunk, Drop::kUnknownChunk, "it pushed a chunk that does not exist",
     "it replied to what was not pushed"},
    {PushResult::kBadLength, Drop::kBadLength, "it pushed a chunk of a wrong size",
     "it replied with a chunk of a wrong size"},
    {PushResult::kDuplicate, Drop::kDuplicatePush, "it pushed a chunk twice in one round",
     "it replied to what was not pushed"},
    {PushResult::kTooEarly,
     Drop::kDuplicatePush,
     "it pushed a chunk before it had the reply to its last push of it",
     {}},
};

const Refusal* refusal_of(PushResult result) {
  const auto* const found =
      std::ranges::find_if(kRefusals, [&](const Refusal& row) { return row.result == result; });
  return found == std::end(kRefusals) ? nullptr : found;
}

void refuse(Losses& losses, Connection& connection, PushResult result) {
  const Refusal* const refusal = refusal_of(result);
  PHUB_CHECK(refusal != nullptr, "each result is taken or refused");
  const bool is_reply = connection.role == PeerRole::kRackAbove;
  const std::string_view reason = is_reply ? refusal->reply : refusal->push;
  reason.empty() ? losses.count(refusal->cause) : losses.drop(connection, refusal->cause, reason);
}

}  // namespace

void Dispatch::give_back(const Connection& connection, std::uint32_t immediate, std::byte* data) {
  if (data == nullptr || connection.in_place) return;
  if (connection.role == PeerRole::kRackAbove && !connection.job->staging->owns(data)) return;
  if (wire::is_control(wire::slot_of(immediate))) return;
  connection.job->staging->give(data);
}

void Dispatch::on_push(const Arrival& arrival) {
  Connection& connection = *arrival.connection;
  JobOnCore& job = *connection.job;
  const std::uint32_t slot = wire::slot_of(arrival.immediate);
  ++connection.pushes;
  const PushResult result = job.shard.on_push({.worker = connection.worker,
                                               .slot = slot,
                                               .data = arrival.data,
                                               .bytes = arrival.bytes,
                                               .staged = !connection.in_place,
                                               .hyper = &connection.hyper});
  switch (result) {
    case PushResult::kAccepted:
      return job.on_taken(slot, arrival);
    case PushResult::kCompleted:
      job.on_taken(slot, arrival);
      if (connection.role == PeerRole::kWorker) job.on_gathered(slot, arrival, turns_.rate());
      job.times.completed(slot, turns_.now());
      return replies_.complete(job, slot);
    case PushResult::kGathered:
    case PushResult::kGoesUp:
    case PushResult::kExchanging:
    case PushResult::kDeferred:
    case PushResult::kUpdatesDue:
      job.on_taken(slot, arrival);
      if (connection.role == PeerRole::kWorker) job.on_gathered(slot, arrival, turns_.rate());
      return on_taken(arrival, slot, result);
    case PushResult::kForbidden:  // the control plane, which looks at the findings, ends the job
    case PushResult::kTaken:
    case PushResult::kOpened:
    case PushResult::kQuorum:
      job.on_taken(slot, arrival);
      return on_taken(arrival, slot, result);
    case PushResult::kDropped:
      job.on_dropped(slot, arrival);
      return replies_.release(job, slot);
    default:
      return refuse(losses_, connection, result);
  }
}

void Dispatch::on_taken(const Arrival& arrival, std::uint32_t slot, PushResult result) {
  JobOnCore& job = *arrival.connection->job;
  switch (result) {
    case PushResult::kCompleted:
      job.times.completed(slot, turns_.now());
      return replies_.complete(job, slot);
    case PushResult::kGoesUp:
      return replies_.go_up(job, slot);
    case PushResult::kExchanging:
      return due_.follow_exchange(job, slot);
    case PushResult::kDeferred:
    case PushResult::kUpdatesDue:
      return on_deferred(job, result);
    case PushResult::kOpened:
      due_.await_quorum(job, slot);
      return replies_.release(job, slot);
    case PushResult::kQuorum:
      due_.begin_grace(job, slot);
      return replies_.release(job, slot);
    case PushResult::kTaken:
      return replies_.release(job, slot);
    default:  // there is nothing to tell
      return;
  }
}

void Dispatch::on_deferred(JobOnCore& job, PushResult result) {
  if (result == PushResult::kUpdatesDue) due_.add(job);
  NormWords* const words = job.shard.updates.gate()->words();
  if (words != nullptr && words->take_question()) replies_.tell_norm(job);
}

// Takes a reply of the rack above to a sum that was pushed to it.
void Dispatch::on_reply(const Arrival& arrival) {
  Connection& connection = *arrival.connection;
  JobOnCore& job = *connection.job;
  const std::uint32_t slot = wire::reply_slot_of(arrival.immediate);
  const PushResult result = job.shard.take_reply(slot, {arrival.data, arrival.bytes},
                                                 wire::was_skipped(arrival.immediate));
  if (refusal_of(result) != nullptr) return refuse(losses_, connection, result);
  job.on_replied(arrival);
  on_taken(arrival, slot, result);
}

}  // namespace phub::server
