#include "server/core/replies.h"

#include <algorithm>
#include <array>
#include <cstring>

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
  if (!job.shard.is_plain()) {
    if (job.shard.members.rounds() != nullptr) {
      release(job, slot);
      if (job.shard.racks) complete_racks(job, slot);
      return;
    }
    if (job.shard.racks) return complete_below(job, slot);
    if (job.tcp_streams > 1) return complete_on_streams(job, slot);
  }
  for (const auto& connection : job.connections) {
    if (!connection || connection->lost) continue;
    connection->replies.insert(slot);
    mark(*connection);
  }
}

void Replies::complete_on_streams(JobOnCore& job, std::uint32_t slot) {
  for (const auto& connection : job.connections) {
    if (!connection || connection->lost) continue;
    Connection& carrier = connection->carrier(slot);
    carrier.replies.insert(slot);
    mark(carrier);
  }
}

void Replies::release(JobOnCore& job, std::uint32_t slot) {
  for (const std::uint32_t worker : job.shard.members.rounds()->released()) {
    const auto& connection = job.connections[worker];
    if (!connection || connection->lost) continue;
    Connection& carrier = connection->carrier(slot);
    carrier.replies.insert(slot);
    mark(carrier);
  }
}

// Of a job of several racks: this one's workers, and the racks that have pushed the chunk here.
void Replies::complete_below(JobOnCore& job, std::uint32_t slot) {
  for (const auto& connection : job.connections) {
    if (!connection || connection->lost || connection->role != PeerRole::kWorker) continue;
    Connection& carrier = connection->carrier(slot);
    carrier.replies.insert(slot);
    mark(carrier);
  }
  complete_racks(job, slot);
}

void Replies::complete_racks(JobOnCore& job, std::uint32_t slot) {
  const ShardChunk& chunk = job.shard.chunk(slot);
  if (!chunk.is_for_racks) return;
  for (const auto& connection : job.connections) {
    if (!connection || connection->lost || connection->role == PeerRole::kWorker) continue;
    if (!job.shard.racks->pushes(connection->worker, chunk)) continue;
    Connection& carrier = connection->carrier(slot);
    carrier.replies.insert(slot);
    mark(carrier);
  }
}

void Replies::complete_together(JobOnCore& job, std::uint32_t slot) {
  const RackPlace& place = job.shard.racks->place();
  for (const auto& connection : job.connections) {
    if (!connection || connection->lost || connection->role == PeerRole::kWorker) continue;
    const std::uint32_t rack = place.rack_at(connection->worker, job.workers);
    if (!job.shard.open->rounds.is_replied(slot, rack)) continue;
    Connection& carrier = connection->carrier(slot);
    carrier.replies.insert(slot);
    mark(carrier);
  }
}

void Replies::tell_norm(JobOnCore& job) {
  for (const auto& connection : job.connections) {
    if (!connection || connection->lost || connection->role != PeerRole::kWorker) continue;
    connection->owed |= Connection::kNorm;
    mark(*connection);
  }
}

void Replies::go_up(JobOnCore& job, std::uint32_t slot) {
  const std::uint32_t tree = job.shard.chunk(slot).tree;
  const auto& connection = job.above[job.shard.racks->place().above(tree)];
  // A worker that does not wait for the start may push before all of a route's peers are there.
  if (!connection || connection->lost || !connection->is_whole()) return;
  Connection& carrier = connection->carrier(slot);
  carrier.replies.insert(slot);
  mark(carrier);
}

void Replies::go_up(JobOnCore& job, const Vote& vote) {
  for (const auto& connection : job.above) {
    if (!connection || connection->lost) continue;
    connection->for_each_stream([&](Connection& stream) {
      if (!takes_votes(stream)) return;
      stream.vote = vote;
      stream.owed |= Connection::kVote;
      mark(stream);
    });
  }
}

// Words are for the pushes that go the same way. Where none goes, rounds do not wait until the rack
// has read them, and any number of them could be on their way.
bool Replies::takes_hypers(const Connection& above) {
  if (above.route != nullptr) return above.route->peers[above.stream].takes_sums;
  const JobOnCore& job = *above.job;
  return job.shard.racks->pushes_to(job.shard.racks->place().rack_at(above.worker, job.workers));
}

// A core counts one vote of a rack, whichever of its cores have counted the workers'.
bool Replies::takes_votes(const Connection& above) {
  if (above.route != nullptr) return above.route->peers[above.stream].takes_votes;
  return takes_hypers(above);
}

// Each stream of worker 0 brings the same Hyper. It goes up once, before the first push that it
// holds for: the rack above takes one in a round.
void Replies::pass_on_hyper(const Connection& from) {
  JobOnCore& job = *from.job;
  const RackPlace& place = job.shard.racks->place();
  const bool is_worker = from.role == PeerRole::kWorker;
  if (is_worker && from.worker != 0) return;
  const std::uint32_t rack = is_worker ? place.own() : place.rack_at(from.worker, job.workers);
  for (const auto& connection : job.above) {
    if (!connection || connection->lost) continue;
    const std::uint32_t to = place.rack_at(connection->worker, job.workers);
    if (!place.passes_on(rack, to)) continue;
    connection->for_each_stream([&](Connection& stream) {
      if (!takes_hypers(stream)) return;
      if (std::memcmp(&stream.hyper, &from.hyper, sizeof(Hyper)) == 0) return;
      stream.hyper = from.hyper;
      stream.owed |= Connection::kHyper;
      mark(stream);
    });
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

// The replies that are due, most urgent first; how many there are now. REQUIRES: room for one.
std::size_t Replies::take_replies(Connection& connection, std::span<Write> writes,
                                  std::uint64_t now) {
  JobOnCore& job = *connection.job;
  std::size_t count = 0;
  while (count < writes.size() && !connection.replies.empty()) {
    const std::uint32_t slot = connection.replies.pop_min();
    const ShardChunk& chunk = job.shard.chunk(slot);
    const auto payload = job.shard.updates.parameters.published(chunk.place);
    job.times.replying(slot, now, turns_.rate());
    writes[count++] = {.data = payload.data(),
                       .bytes = static_cast<std::uint32_t>(payload.size()),
                       .immediate = wire::reply(slot, job.epoch, chunk.skipped)};
  }
  return count;
}

// The same of what goes to a rack above: sums.
std::size_t Replies::take_sums(Connection& connection, std::span<Write> writes) {
  std::size_t count = 0;
  while (count < writes.size() && !connection.replies.empty()) {
    const std::uint32_t slot = connection.replies.pop_min();
    const auto sum = connection.job->shard.exchange->sum_to_push(slot);
    writes[count++] = {.data = sum.data(),
                       .bytes = static_cast<std::uint32_t>(sum.size()),
                       .immediate = wire::immediate(slot, connection.epoch)};
  }
  return count;
}

// Replaces a reply by its changes where these are smaller (server/chunks/chunk/sparse_replies.h).
void Replies::shorten(const Connection& connection, std::span<Write> replies) {
  const Shard& shard = connection.job->shard;
  const bool is_worker = connection.role == PeerRole::kWorker;
  for (Write& reply : replies) {
    const std::uint32_t slot = wire::reply_slot_of(reply.immediate);
    const auto payload = is_worker ? shard.updates.replies.smallest(slot)
                                   : shard.rack_rounds->reply_below(connection.worker, slot);
    if (payload.empty()) continue;  // initial parameters, which go down as they are
    reply.data = payload.data();
    reply.bytes = static_cast<std::uint32_t>(payload.size());
  }
}

// Names the chunks by their slots at the receiver, a core of a rack with other cores.
void Replies::rename(const CoreRoute& route, std::span<Write> writes, bool are_replies) {
  for (Write& write : writes) {
    const std::uint32_t immediate = write.immediate;
    const std::uint32_t epoch = wire::epoch_of(immediate);
    write.immediate = are_replies
                          ? wire::reply(route.slot_there[wire::reply_slot_of(immediate)], epoch,
                                        wire::was_skipped(immediate))
                          : wire::immediate(route.slot_there[wire::slot_of(immediate)], epoch);
  }
}

// One of those that are owed. REQUIRES: room for it.
void Replies::send_word(Connection& connection) {
  const auto word = [&](const auto& value, std::uint32_t slot) {
    std::byte* const place = connection.words + wire::offset_in_line(slot);
    std::memcpy(place, &value, sizeof(value));
    return Write{.data = place,
                 .bytes = sizeof(value),
                 .immediate = wire::immediate(slot, connection.epoch)};
  };
  Write write;
  std::uint8_t sent = Connection::kNorm;
  if ((connection.owed & Connection::kHyper) != 0) {
    write = word(connection.hyper, wire::kHyperSlot);
    sent = Connection::kHyper;
  } else if ((connection.owed & Connection::kVote) != 0) {
    write = word(connection.vote, wire::kVoteSlot);
    sent = Connection::kVote;
  } else {
    const auto norm = connection.job->shard.updates.gate()->words()->line();
    write = {.data = norm.data(),
             .bytes = static_cast<std::uint32_t>(norm.size()),
             .immediate = wire::immediate(wire::kNormSlot, connection.epoch)};
  }
  connection.owed &= static_cast<std::uint8_t>(~sent);
  const std::uint64_t start = turns_.now();
  connection.endpoint->post(connection.peer, {&write, 1});
  bytes_sent.add(write.bytes);
  connection.counters->bytes_sent.add(write.bytes);
  turns_.spend(connection, write.bytes, turns_.now() - start);
}

// True when nothing is left.
bool Replies::send(Connection& connection) {
  JobOnCore& job = *connection.job;
  WorkerCounters& counters = *connection.counters;
  const bool is_above = connection.role == PeerRole::kRackAbove;
  std::uint64_t now = turns_.now();
  std::array<Write, kRepliesPerPost> writes;  // NOLINT(*-member-init): filled below
  while (!connection.lost && (!connection.replies.empty() || connection.owed != 0)) {
    const std::size_t room = std::min(writes.size(), connection.endpoint->room(connection.peer));
    if (room == 0) return false;
    if (connection.owed != 0) {
      send_word(connection);
      now = turns_.now();
      continue;
    }
    const std::span<Write> free(writes.data(), room);
    const std::size_t count =
        is_above ? take_sums(connection, free) : take_replies(connection, free, now);
    if (connection.sparse_replies) shorten(connection, free.first(count));
    if (connection.role != PeerRole::kWorker && connection.route != nullptr) {
      rename(*connection.route, free.first(count), !is_above);
    }
    std::size_t bytes = 0;
    for (const Write& write : free.first(count)) bytes += write.bytes;
    connection.endpoint->post(connection.peer, free.first(count));
    bytes_sent.add(bytes);
    counters.bytes_sent.add(bytes);
    const std::uint64_t then = turns_.now();
    if (connection.role == PeerRole::kWorker) {
      job.times.replied(connection.worker, static_cast<std::uint32_t>(count), then);
    }
    for (const Write& write : free.first(count)) {
      turns_.spend(connection, write.bytes,
                   (then - now) * write.bytes / std::max<std::size_t>(bytes, 1));
    }
    now = then;
  }
  return true;
}

}  // namespace phub::server
