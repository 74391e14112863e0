#include "worker/client/failure.h"

#include <string>

namespace phub::client {
namespace {

// A key that shares a chunk with the one that was waited for and has not been pushed, so that the
// chunk cannot be sent.
std::optional<KeyId> blocking_key(const TimedOut& wait) {
  const Chunk& chunk = wait.plan.chunks[wait.plan.first_chunk[*wait.key]];
  for (std::uint32_t i = 0; i < chunk.segment_count; ++i) {
    const KeyId other = wait.plan.segments[chunk.first_segment + i].key;
    if (wait.driver.ready(other)) return other;
  }
  return std::nullopt;
}

}  // namespace

Status explain_failure(const ExchangeDriver& driver, Heartbeats& heartbeat,
                       const Membership& membership) {
  const auto loss = driver.loss();
  if (loss && loss->loss == transport::Loss::kBadTag) {
    return {Code::kDataLoss, "what came from server " +
                                 membership.servers[loss->server]->address() + ", core " +
                                 std::to_string(loss->core) +
                                 ", was changed on the way: a record of the encrypted connection "
                                 "does not verify; nothing of it was used"};
  }
  if (heartbeat.failed()) {
    return loss ? heartbeat.diagnose(loss->server, loss->core) : heartbeat.failure();
  }
  if (heartbeat.someone_left()) return heartbeat.leavers();
  return loss ? heartbeat.diagnose(loss->server, loss->core)
              : Status(Code::kUnavailable, "the exchange stopped");
}

Status explain_timeout(const TimedOut& wait) {
  std::string message = "no reply within " + std::to_string(wait.options.timeout.count()) + " ms";
  if (wait.options.job.loss_scale.kind == LossScaling::kVoted && wait.owes_vote) {
    message += ", and this worker has not voted since its last push: call vote before wait";
    return {Code::kDeadlineExceeded, message};
  }
  if (wait.key) {
    message += " for key " + wait.keys[*wait.key].name;
    if (const auto other = blocking_key(wait)) {
      message +=
          ": it shares a chunk with key " + wait.keys[*other].name + ", which has not been pushed";
      return {Code::kDeadlineExceeded, message};
    }
  }
  const RoundPolicy& rounds = wait.options.job.rounds;
  if (!rounds.waits_for_all()) {
    if (rounds.turns) {
      message += "; another worker, whose turn is before this one's, has not pushed";
    } else if (rounds.staleness == kAnyStaleness) {
      message += "; its quorum is not there, or this worker's reply has not come";
    } else {
      message += "; its quorum is not there, or this worker is more than " +
                 std::to_string(rounds.staleness) + " rounds ahead of the slowest";
    }
    message += " (see `phubctl job explain " + wait.options.job.name + "`)";
    return {Code::kDeadlineExceeded, message};
  }
  message += "; another worker has not pushed it";
  if (wait.options.job.clip_norm > 0.0F && wait.options.servers.size() > 1) {
    message += ", or has pushed all and does not wait, and so passes on no norm";
  }
  message += " (see `phubctl job explain " + wait.options.job.name + "`)";
  return {Code::kDeadlineExceeded, message};
}

}  // namespace phub::client
