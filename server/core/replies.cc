#include "server/core/replies.h"

#include <algorithm>
#include <array>

#include "common/protocol/wire.h"

namespace phub::server {

using transport::Write;

namespace {
constexpr std::size_t kRepliesPerPost = 16;

// Replies are kept back to be so many, but not for more rounds of the core than that: other jobs
// may keep it at work for ever.
struct Batching {
  std::size_t replies;
  std::uint32_t rounds;
};
constexpr Batching kUsual{8, 4};  // into a socket they are to be copied while in the cache
// What a worker reads in place costs the same at any time; while jobs take turns many of one job
// come together, and a wake-up costs half a chunk's work.
constexpr Batching kInPlace{32, 16};
}  // namespace

void Replies::complete(JobOnCore& job, std::uint32_t slot) {
  chunks_completed.add(1);
  for (const auto& connection : job.connections) {
    if (!connection || connection->lost) continue;
    connection->replies.insert(slot);
    mark(*connection);
  }
}

void Replies::mark(Connection& connection) {
  if (connection.dirty) return;
  connection.dirty = true;
  dirty_.push_back(&connection);
}

bool Replies::is_batching(Connection& connection) const {
  const bool is_turn_by_turn = connection.in_place && turns_.are_taken();
  const Batching& batching = is_turn_by_turn ? kInPlace : kUsual;
  // Where turns are taken, nothing would join them soon without more pushes of their job here.
  const bool is_worth = !is_turn_by_turn || !connection.job->arrivals.empty();
  return is_worth && connection.replies.size() < batching.replies &&
         connection.batched++ < batching.rounds && !connection.lost;
}

void Replies::send(bool all) {
  for (std::size_t i = 0; i < dirty_.size();) {
    Connection& connection = *dirty_[i];
    if (!all && is_batching(connection)) {
      ++i;
      continue;
    }
    connection.batched = 0;
    if (send(connection)) {
      connection.dirty = false;
      dirty_[i] = dirty_.back();
      dirty_.pop_back();
    } else {
      ++i;
    }
  }
}

// Sends what is complete, the most urgent chunk first. True when nothing is left.
bool Replies::send(Connection& connection) {
  JobOnCore& job = *connection.job;
  WorkerCounters& counters = job.worker_counters[connection.worker];
  std::uint64_t now = turns_.now();
  std::array<Write, kRepliesPerPost> writes;  // NOLINT(*-member-init): filled below
  while (!connection.replies.empty() && !connection.lost) {
    const std::size_t room = std::min(writes.size(), connection.endpoint->room(connection.peer));
    if (room == 0) return false;
    std::size_t count = 0;
    std::size_t bytes = 0;
    while (count < room && !connection.replies.empty()) {
      const std::uint32_t slot = connection.replies.pop_min();
      const auto payload = job.shard.reply(slot);
      bytes += payload.size();
      job.times.replying(slot, now, turns_.rate());
      writes[count++] = {.data = payload.data(),
                         .bytes = static_cast<std::uint32_t>(payload.size()),
                         .immediate = wire::reply(slot, job.epoch, job.shard.was_skipped(slot))};
    }
    connection.endpoint->post(connection.peer, {writes.data(), count});
    bytes_sent.add(bytes);
    counters.bytes_sent.add(bytes);
    const std::uint64_t then = turns_.now();
    job.times.replied(connection.worker, static_cast<std::uint32_t>(count), then);
    for (const Write& write : std::span(writes.data(), count)) {
      turns_.spend(connection, write.bytes, (then - now) * write.bytes / bytes);
    }
    now = then;
  }
  return true;
}

}  // namespace phub::server
