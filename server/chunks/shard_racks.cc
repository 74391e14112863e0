// What a shard does in a job of several racks: sums of racks, up and down their trees.
#include <cstring>

#include "server/chunks/shard.h"

namespace phub::server {

// Adds the push of a worker of this rack, or of a rack below.
PushResult Shard::add_of_racks(Push push, ShardChunk& chunk) {
  const bool is_worker = racks->is_worker(push.worker);
  Contribution sum;
  const PushResult seen =
      is_worker ? reader.read(push, chunk, sum) : exchange->read(push, chunk, sum);
  if (seen != PushResult::kAccepted) return stop_if_it_ends(seen);
  if (push.worker == chunk.leader) chunk.hyper = *push.hyper;
  if (is_worker) {
    const bool are_all = racks->add(push, sum, chunk);
    if (are_all && !racks->read_rest(push.slot, reader)) {
      return stop_if_it_ends(PushResult::kCorrupt);
    }
    if (reader.ends_job()) return stop_if_it_ends(PushResult::kForbidden);
    if (!are_all) return PushResult::kAccepted;
    if (racks->has_scale()) return add_own_sum(push.slot);
    racks->hold(push.slot, chunk);
    return stop_if_it_ends(reader.ends_job() ? PushResult::kForbidden : PushResult::kGathered);
  }
  return add_sum(push.slot, racks->position(push.worker, chunk), sum) ? finish_of_racks(push.slot)
                                                                      : PushResult::kAccepted;
}

std::pair<std::uint32_t, PushResult> Shard::take_held() {
  const std::uint32_t slot = racks->take_held();
  return {slot, add_own_sum(slot)};
}

// This rack's, of which the last push has come.
PushResult Shard::add_own_sum(std::uint32_t slot) {
  ShardChunk& chunk = updates.chunks[slot];
  const Contribution sum = racks->take(slot, chunk);
  if (reader.ends_job()) {
    staging_.give(sum.data);
    return stop_if_it_ends(PushResult::kForbidden);
  }
  exchange->prepare(slot, sum.data, racks->scale());
  racks->go_on();
  return add_sum(slot, racks->position(0, chunk), sum) ? finish_of_racks(slot)
                                                       : PushResult::kGathered;
}

bool Shard::add_sum(std::uint32_t slot, std::uint32_t position, const Contribution& sum) {
  ShardChunk& chunk = updates.chunks[slot];
  return updates.sums.add(slot, position, sum, chunk.sum, chunk.place.elements);
}

PushResult Shard::finish_of_racks(std::uint32_t slot) {
  return updates.chunks[slot].is_root ? updates.finish(slot) : go_up(slot);
}

// Leaves the sum where it is sent from.
PushResult Shard::go_up(std::uint32_t slot) {
  exchange->write_up(slot, updates.chunks[slot].sum, updates.sums);
  begin_above(slot);
  return PushResult::kGoesUp;
}

// The rack above may reply from now on. A device writes the reply without a word to this core.
void Shard::begin_above(std::uint32_t slot) {
  updates.chunks[slot].enter(ChunkState::kAbove);
  if (exchange->replies_land_unseen) updates.begin_landing(slot);
}

std::byte* Shard::place_of_reply(std::uint32_t seat, std::uint32_t slot, std::uint32_t bytes) {
  if (slot >= chunks()) return nullptr;
  const ShardChunk& chunk = updates.chunks[slot];
  if (!chunk.is_above() || !racks->is_above(seat, chunk)) return nullptr;
  if (exchange->combines(chunk)) {
    return exchange->may_reply(chunk, bytes) ? staging_.take_for_push() : nullptr;
  }
  if (bytes != push_bytes(slot)) return nullptr;
  updates.begin_landing(slot);
  return updates.parameters.landing(chunk.place);
}

PushResult Shard::take_reply(std::uint32_t slot, std::span<const std::byte> data, bool is_skipped) {
  if (staging_.owns(data.data())) {
    const PushResult taken = take_combined(slot, data);
    staging_.give(const_cast<std::byte*>(data.data()));  // place_of_reply took it
    return taken;
  }
  if (stopped_) return PushResult::kStopped;
  if (slot >= chunks()) return PushResult::kUnknownChunk;
  ShardChunk& chunk = updates.chunks[slot];
  if (data.size() != push_bytes(slot) || exchange->combines(chunk)) return PushResult::kBadLength;
  if (!chunk.is_above()) return PushResult::kDuplicate;
  updates.begin_landing(slot);
  std::byte* const place = updates.parameters.landing(chunk.place);
  if (data.data() != place) std::memcpy(place, data.data(), data.size());
  chunk.skipped = is_skipped;
  // A part of a chunk may be skipped where keys are; what it sent is then lost, not sent twice.
  if (is_skipped && !skips_keys_) chunk.has_next_rest = false;
  // Where each rack applies the rule, a restored one has the masters that go with its state.
  if (!exchange->compresses() || !restored_) updates.parameters.adopt(chunk.place);
  if (chunk.initialised) {
    if (!is_skipped || skips_keys_) updates.parameters.average_landed(chunk.place);
    updates.complete(slot);
  } else {
    if (!restored_) updates.parameters.begin_average(chunk.place);
    updates.begin(slot);
  }
  return PushResult::kCompleted;
}

// All racks' sum, which this one's is in.
PushResult Shard::take_combined(std::uint32_t slot, std::span<const std::byte> reply) {
  if (stopped_) return PushResult::kStopped;
  if (!updates.chunks[slot].is_above()) return PushResult::kDuplicate;
  const bool goes_on = racks->place().members(updates.chunks[slot].tree) > 1;
  const PushResult seen = exchange->read_reply(slot, reply, goes_on);
  if (seen != PushResult::kAccepted) return seen;
  if (outer) {
    updates.step_outer(slot);
    return PushResult::kCompleted;
  }
  if (updates.chunks[slot].sum.data != nullptr) return updates.finish(slot);
  updates.leave_out(slot);
  return PushResult::kCompleted;
}

}  // namespace phub::server
