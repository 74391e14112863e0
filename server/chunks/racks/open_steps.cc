#include "server/chunks/racks/open_steps.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace phub::server {

OpenSteps::OpenSteps(const JobLayout& layout, std::vector<ShardChunk>& chunks, OuterSteps& outer,
                     RackExchange& exchange, BufferPool& staging)
    : rounds(layout.rack_local, layout.rack.racks(), chunks.size()),
      place_(layout.rack),
      workers_(layout.workers),
      may_wait_(layout.rounds.waits_for_all() && layout.rack_local.wait_ms > 0),
      chunks_(chunks),
      outer_(outer),
      exchange_(exchange),
      staging_(staging),
      replies_(layout.rack.racks(), chunks),
      sums_(chunks.size()) {}

void OpenSteps::begin_restored(std::uint32_t slot) {
  if (float* const moved = rounds.take_moved(slot); moved != nullptr) give_buffer(moved);
  outer_.adopt(slot);
}

void OpenSteps::end_round(std::uint32_t slot) {
  ShardChunk& chunk = chunks_[slot];
  chunk.is_for_racks = false;
  if (float* const moved = rounds.take_moved(slot); moved != nullptr) {
    outer_.move(slot, moved);
    give_buffer(moved);
    rounds.outcome.has_moved = true;
  }
  if (outer_.is_due(chunk) && !rounds.is_owed(slot)) push_own(slot);
  if (!rounds.is_waiting(slot)) {
    rounds.outcome.is_complete = true;
    return;
  }
  chunk.enter(ChunkState::kUpdating);
  if (!chunk.is_root) chunk.enter(ChunkState::kLanding);
}

// Pushes this rack's difference. At the root the outer step may follow at once.
void OpenSteps::push_own(std::uint32_t slot) {
  const std::uint32_t elements = chunks_[slot].place.elements;
  float* const difference = take_buffer();
  outer_.write_difference(slot, difference);
  float* const moved = take_buffer();
  std::copy_n(difference, elements, moved);
  rounds.push_own(slot, moved, may_wait_);
  exchange_.prepare(slot, reinterpret_cast<std::byte*>(difference), 1.0F);
  if (!chunks_[slot].is_root) {
    exchange_.write_up(slot, {difference, elements});
    give_buffer(difference);
    rounds.outcome.goes_up = true;
    return;
  }
  rounds.arrive(slot, place_.own());
  add_to_sum(slot, reinterpret_cast<std::byte*>(difference));
  if (rounds.is_whole(slot)) step(slot);
}

PushResult OpenSteps::add(const Push& push) {
  const std::uint32_t rack = place_.rack_at(push.worker, workers_);
  if (!rounds.arrive(push.slot, rack)) {
    if (push.staged) staging_.give(push.data);
    return PushResult::kDuplicate;
  }
  Contribution difference;
  const PushResult seen = exchange_.read(push, chunks_[push.slot], difference);
  if (seen != PushResult::kAccepted) return seen;
  add_to_sum(push.slot, difference.data);
  if (rounds.is_whole(push.slot)) step(push.slot);
  return PushResult::kExchanging;
}

// Takes the buffer.
void OpenSteps::add_to_sum(std::uint32_t slot, std::byte* difference) {
  if (sums_[slot] == nullptr) {
    sums_[slot] = reinterpret_cast<float*>(difference);
    return;
  }
  const auto source = [](const auto* values) {
    return kernels::Source{reinterpret_cast<const std::byte*>(values), DataType::kFloat32};
  };
  kernels::add(sums_[slot], source(sums_[slot]), source(difference), chunks_[slot].place.elements);
  staging_.give(difference);
}

// At the root: makes the outer step with the differences that are there.
void OpenSteps::step(std::uint32_t slot) {
  const std::uint32_t elements = chunks_[slot].place.elements;
  const std::span<const float> together = outer_.together(slot);
  float* const before = take_buffer();
  std::copy_n(together.data(), elements, before);
  outer_.step_together(slot, sums_[slot], rounds.taking_part(slot));
  give_buffer(std::exchange(sums_[slot], nullptr));
  rounds.end(slot);
  for (std::uint32_t rack = 0; rack < place_.racks(); ++rack) {
    const bool is_other = rack != place_.own();
    if (is_other && rounds.is_replied(slot, rack)) replies_.write(rack, slot, together);
  }
  take_own(slot, {before, elements}, rounds.is_replied(slot, place_.own()));
  give_buffer(before);
}

PushResult OpenSteps::take_reply(std::uint32_t slot, std::span<const std::byte> parameters) {
  if (!rounds.is_owed(slot) || chunks_[slot].is_root) return PushResult::kDuplicate;
  const std::uint32_t elements = chunks_[slot].place.elements;
  float* const before = take_buffer();
  std::copy_n(outer_.together(slot).data(), elements, before);
  outer_.set_together(slot, parameters);
  rounds.waits.remove(slot);
  take_own(slot, {before, elements}, true);
  give_buffer(before);
  return PushResult::kExchanging;
}

// What racks had together was `before`, and has changed. `is_in`: this rack's difference was in it.
void OpenSteps::take_own(std::uint32_t slot, std::span<const float> before, bool is_in) {
  if (is_in && rounds.is_waiting(slot)) {
    rounds.end_own(slot);
    give_buffer(rounds.take_moved(slot));
    outer_.adopt(slot);
    rounds.outcome.has_moved = true;
    rounds.outcome.is_complete = true;
    return;
  }
  if (rounds.moved(slot) == nullptr) {
    float* const none = take_buffer();
    std::fill_n(none, before.size(), 0.0F);
    rounds.move(slot, none);
  }
  float* const moved = rounds.moved(slot);
  const float* const now = outer_.together(slot).data();
  for (std::size_t i = 0; i < before.size(); ++i) moved[i] += now[i] - before[i];
  if (is_in) rounds.end_own(slot);
}

std::uint32_t OpenSteps::end_wait() {
  const std::uint32_t slot = rounds.waits.front();
  rounds.waits.remove(slot);
  if (chunks_[slot].is_root && rounds.has_quorum(slot)) step(slot);
  if (rounds.is_waiting(slot)) {
    rounds.go_on(slot);
    rounds.outcome.is_complete = true;
  }
  return slot;
}

bool OpenSteps::may_reply(std::uint32_t slot, std::uint32_t bytes) const {
  return rounds.is_owed(slot) && bytes == chunks_[slot].place.elements * sizeof(float);
}

}  // namespace phub::server
