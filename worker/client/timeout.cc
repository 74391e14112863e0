#include "worker/client/timeout.h"

#include <string>

namespace phub::client {
namespace {

// A key that shares a chunk with the one that was waited for and has not been pushed, so that the
// chunk cannot be sent.
std::optional<KeyId> blocking_key(const TimedOut& wait) {
  const Chunk& chunk = wait.plan.chunks[wait.plan.first_chunk[*wait.key]];
  for (std::uint32_t i = 0; i < chunk.segment_count; ++i) {
    const KeyId other = wait.plan.segments[chunk.first_segment + i].key;
    if (wait.progress.ready(other)) return other;
  }
  return std::nullopt;
}

}  // namespace

Status explain_timeout(const TimedOut& wait) {
  std::string message = "no reply within " + std::to_string(wait.options.timeout.count()) + " ms";
  if (wait.options.loss_scale.kind == LossScaling::kVoted && wait.owes_vote) {
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
  message +=
      "; another worker has not pushed it (see `phubctl job inspect " + wait.options.job + "`)";
  return {Code::kDeadlineExceeded, message};
}

}  // namespace phub::client
