// What the two ends of the data plane agree on beside the plan: the immediate and the worker's
// memory.
#pragma once

#include <cstddef>
#include <cstdint>

#include "common/base/loss_scale.h"
#include "common/base/rule.h"
#include "common/plan/plan.h"

namespace phub::wire {

// Immediate: chunk slot within the connection's core (24 bits) and the low bits of the job's epoch
// (8 bits), so that a write from before a membership change is recognised and dropped.
inline constexpr std::uint32_t kSlotBits = 24;
inline constexpr std::uint32_t kSlotMask = (1U << kSlotBits) - 1;

// Slot that carries a Hyper in place of a chunk: it holds for the pushes that follow it.
inline constexpr std::uint32_t kHyperSlot = kSlotMask;
// Slot that carries a Vote: see common/base/loss_scale.h.
inline constexpr std::uint32_t kVoteSlot = kSlotMask - 1;
// Slot that carries a part of the norm of all gradients, of jobs that clip over several servers: a
// double, which each core tells each worker of its chunks, and each worker then each core of all.
inline constexpr std::uint32_t kNormSlot = kSlotMask - 2;
constexpr bool is_control(std::uint32_t slot) { return slot >= kNormSlot; }

// Of a reply: the chunk's update was left out, so that its parameters are those of the round
// before. A core's chunks have slots below it, and none with which it would be a control slot.
inline constexpr std::uint32_t kSkippedBit = 1U << (kSlotBits - 1);
static_assert(kMaxCoreChunks <= (kNormSlot & ~kSkippedBit));

constexpr std::uint32_t immediate(std::uint32_t slot, std::uint32_t epoch) {
  return (epoch << kSlotBits) | (slot & kSlotMask);
}
constexpr std::uint32_t slot_of(std::uint32_t immediate) { return immediate & kSlotMask; }
constexpr std::uint32_t epoch_of(std::uint32_t immediate) { return immediate >> kSlotBits; }
constexpr std::uint32_t reply(std::uint32_t slot, std::uint32_t epoch, bool skipped) {
  return immediate(slot, epoch) | (skipped ? kSkippedBit : 0);
}
constexpr std::uint32_t reply_slot_of(std::uint32_t immediate) {
  return slot_of(immediate) & ~kSkippedBit;
}
constexpr bool was_skipped(std::uint32_t immediate) { return (immediate & kSkippedBit) != 0; }
constexpr bool same_epoch(std::uint32_t immediate, std::uint32_t epoch) {
  return epoch_of(immediate) == (epoch & 0xFFU);
}

// A worker's memory: one line per connection with a Hyper, a Vote and a norm, then the gradient
// arena. A Hyper is written while no push is outstanding and read before the reply to a push that
// follows it, a Vote and a norm when all of a round is pushed and read before the round's replies:
// one each is enough.
inline constexpr std::size_t kHyperStride = 64;
inline constexpr std::size_t kVoteOffset = 32;  // in the line
inline constexpr std::size_t kNormOffset = 48;

// Of a control slot: where in a line its word is, and its size. REQUIRES: is_control(slot).
constexpr std::size_t offset_in_line(std::uint32_t slot) {
  if (slot == kHyperSlot) return 0;
  return slot == kVoteSlot ? kVoteOffset : kNormOffset;
}
constexpr std::uint32_t word_bytes(std::uint32_t slot) {
  if (slot == kHyperSlot) return sizeof(Hyper);
  return slot == kVoteSlot ? sizeof(Vote) : sizeof(double);
}
constexpr std::size_t hyper_bytes(std::size_t connections) {
  return (connections * kHyperStride + 4095) / 4096 * 4096;
}

}  // namespace phub::wire
