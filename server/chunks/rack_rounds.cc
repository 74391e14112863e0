#include "server/chunks/rack_rounds.h"

#include <algorithm>
#include <cstring>

namespace phub::server {

PushResult RackRounds::add(Push push, ShardChunk& chunk) {
  const bool is_worker = parts_.sums.is_worker(push.worker);
  Contribution sum;
  const PushResult seen =
      is_worker ? parts_.reader.read(push, chunk, sum) : parts_.exchange.read(push, chunk, sum);
  if (seen != PushResult::kAccepted) return seen;
  if (push.worker == chunk.leader) chunk.hyper = *push.hyper;
  if (is_worker) return add_of_worker(push, sum, chunk);
  const bool are_all = add_sum(push.slot, parts_.sums.position(push.worker, chunk), sum);
  return are_all ? finish(push.slot) : PushResult::kAccepted;
}

PushResult RackRounds::add_of_worker(const Push& push, const Contribution& own, ShardChunk& chunk) {
  const bool are_all = parts_.sums.add(push, own, chunk);
  if (are_all && !parts_.sums.read_rest(push.slot, parts_.reader)) return PushResult::kCorrupt;
  if (parts_.reader.ends_job()) return PushResult::kForbidden;
  if (!are_all) return PushResult::kAccepted;
  if (parts_.sums.has_scale(push.slot)) return add_own_sum(push.slot);
  parts_.sums.hold(push.slot, chunk);
  return parts_.reader.ends_job() ? PushResult::kForbidden : PushResult::kGathered;
}

std::pair<std::uint32_t, PushResult> RackRounds::take_held() {
  const std::uint32_t slot = parts_.sums.take_held();
  return {slot, add_own_sum(slot)};
}

// Adds the sum of this rack's workers, of which the last push has come.
PushResult RackRounds::add_own_sum(std::uint32_t slot) {
  const Contribution sum = parts_.sums.take(slot, chunk(slot));
  if (parts_.reader.ends_job()) {
    parts_.staging.give(sum.data);
    return PushResult::kForbidden;
  }
  parts_.exchange.prepare(slot, sum.data, parts_.sums.scale());
  parts_.sums.go_on(slot);
  const bool are_all = add_sum(slot, parts_.sums.position(0, chunk(slot)), sum);
  return are_all ? finish(slot) : PushResult::kGathered;
}

bool RackRounds::add_sum(std::uint32_t slot, std::uint32_t position, const Contribution& sum) {
  ShardChunk& to = chunk(slot);
  return parts_.updates.sums.add(slot, position, sum, to.sum, to.place.elements);
}

// All sums are there: applies the rule here, or leaves the total where it is sent from.
PushResult RackRounds::finish(std::uint32_t slot) {
  if (chunk(slot).is_root) return parts_.updates.finish(slot);
  parts_.exchange.write_up(slot, chunk(slot).sum, parts_.updates.sums);
  begin_above(slot);
  return PushResult::kGoesUp;
}

// A device writes the reply without a word to this core.
void RackRounds::begin_above(std::uint32_t slot) {
  chunk(slot).enter(ChunkState::kAbove);
  if (parts_.exchange.replies_land_unseen) parts_.updates.begin_landing(slot);
}

std::byte* RackRounds::place_of_reply(std::uint32_t seat, std::uint32_t slot, std::uint32_t bytes) {
  if (!has(slot)) return nullptr;
  const ShardChunk& due = chunk(slot);
  if (parts_.open != nullptr && due.initialised) {
    const bool may_reply = parts_.sums.is_above(seat, due) && parts_.open->may_reply(slot, bytes);
    return may_reply ? parts_.staging.take_for_push() : nullptr;
  }
  if (!is_due(seat, slot, bytes)) return nullptr;
  if (parts_.exchange.combines(due)) return parts_.staging.take_for_push();
  parts_.updates.begin_landing(slot);
  return parts_.updates.parameters.landing(due.place);
}

bool RackRounds::is_due(std::uint32_t seat, std::uint32_t slot, std::uint32_t bytes) {
  if (!has(slot)) return false;
  const ShardChunk& due = chunk(slot);
  if (!due.is_above() || !parts_.sums.is_above(seat, due)) return false;
  return parts_.exchange.combines(due) ? parts_.exchange.may_reply(due, bytes)
                                       : bytes == bytes_of(slot);
}

PushResult RackRounds::take_reply(std::uint32_t slot, std::span<const std::byte> data,
                                  bool is_skipped) {
  if (!has(slot)) return PushResult::kUnknownChunk;
  if (parts_.staging.owns(data.data())) return take_sum(slot, data);
  const bool is_landed = data.data() == parts_.updates.parameters.landing(chunk(slot).place);
  if (parts_.exchange.combines(chunk(slot)) && !is_landed) return take_sum_in_place(slot, data);
  return take_parameters(slot, data, is_skipped);
}

// The rack above has applied the rule.
PushResult RackRounds::take_parameters(std::uint32_t slot, std::span<const std::byte> data,
                                       bool is_skipped) {
  ShardChunk& to = chunk(slot);
  if (data.size() != bytes_of(slot) || parts_.exchange.combines(to)) return PushResult::kBadLength;
  if (!to.is_above()) return PushResult::kDuplicate;
  ChunkUpdates& updates = parts_.updates;
  updates.begin_landing(slot);
  std::byte* const place = updates.parameters.landing(to.place);
  if (data.data() != place) std::memcpy(place, data.data(), data.size());
  to.skipped = is_skipped;
  // A part of a chunk may be skipped where keys are; what it sent is then lost, not sent twice.
  if (is_skipped && !skips_keys_) to.has_next_rest = false;
  // Where each rack applies the rule, a restored one has the masters that go with its state.
  if (!parts_.exchange.compresses() || !parts_.is_restored) updates.parameters.adopt(to.place);
  if (to.initialised) {
    if (!is_skipped || skips_keys_) updates.parameters.average_landed(to.place);
    updates.complete(slot);
  } else {
    if (!parts_.is_restored) updates.parameters.begin_average(to.place);
    updates.begin(slot);
  }
  return PushResult::kCompleted;
}

// The reply is all racks' sum, which has this one's in it.
PushResult RackRounds::take_sum(std::uint32_t slot, std::span<const std::byte> reply) {
  if (parts_.open != nullptr) {
    const PushResult seen = parts_.open->take_reply(slot, reply);
    return seen == PushResult::kExchanging ? parts_.updates.settle(slot) : seen;
  }
  ShardChunk& to = chunk(slot);
  if (!to.is_above()) return PushResult::kDuplicate;
  const bool goes_on = parts_.sums.place().members(to.tree) > 1;
  const PushResult seen = parts_.exchange.read_reply(slot, reply, goes_on);
  if (seen != PushResult::kAccepted) return seen;
  if (parts_.makes_own) {
    parts_.updates.step_outer(slot);
    return PushResult::kCompleted;
  }
  if (to.sum.data != nullptr) return parts_.updates.finish(slot);
  parts_.updates.leave_out(slot);
  return PushResult::kCompleted;
}

// By shared memory or a device: the other rack could change it after the check.
PushResult RackRounds::take_sum_in_place(std::uint32_t slot, std::span<const std::byte> reply) {
  if (!chunk(slot).is_above()) return PushResult::kDuplicate;
  if (!parts_.exchange.may_reply(chunk(slot), reply.size())) return PushResult::kBadLength;
  if (parts_.staging.free() < 2) return PushResult::kDuplicate;
  std::byte* const copy = parts_.staging.take();
  std::memcpy(copy, reply.data(), reply.size());
  const PushResult result = take_sum(slot, {copy, reply.size()});
  parts_.staging.give(copy);
  return result;
}

std::span<const std::byte> RackRounds::reply_below(std::uint32_t seat, std::uint32_t slot) const {
  if (parts_.open != nullptr) {
    const std::uint32_t rack = parts_.sums.place().rack_at(seat, parts_.sums.workers());
    const auto parameters = parts_.open->reply_to(rack, slot);
    if (!parameters.empty()) return parameters;
  }
  return parts_.exchange.reply_below(slot);
}

// Nobody has parameters before the first round, which is all racks'.
bool RackRounds::lose(std::uint32_t rack) {
  const auto is_ready = [](const ShardChunk& chunk) { return chunk.initialised; };
  if (parts_.open == nullptr || !std::ranges::all_of(parts_.updates.chunks, is_ready)) return false;
  parts_.open->rounds.lose(rack);
  return true;
}

std::uint32_t RackRounds::end_wait() {
  const std::uint32_t slot = parts_.open->end_wait();
  parts_.updates.settle(slot);
  return slot;
}

}  // namespace phub::server
