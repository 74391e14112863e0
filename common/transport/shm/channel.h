// The shared memory between one worker and one core: two rings of notices, one for each direction.
//
// A notice says "these bytes of my memory are yours to read now"; no payload moves. The far side
// may be hostile: whoever reads a ring trusts neither its indexes nor its notices.
#pragma once

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace phub::transport {

struct Notice {
  std::uint32_t immediate;
  std::uint32_t bytes;
  std::uint64_t offset;  // in the memory that the producer shares
};
static_assert(sizeof(Notice) == 16, "Notice is a wire format");

// Indexes count up for ever and wrap at 2^32. The producer owns tail, the consumer head.
// Sleep protocol: the consumer stores kSleeping | (the tail it waits for) into `wake`, then looks
// at tail once more; the producer stores tail, then looks at wake. All four are sequentially
// consistent, so at least one of them sees the other.
struct alignas(64) RingIndexes {
  alignas(64) std::atomic<std::uint32_t> tail;
  alignas(64) std::atomic<std::uint32_t> head;
  alignas(64) std::atomic<std::uint64_t> wake;
};
static_assert(sizeof(RingIndexes) == 192, "RingIndexes is a wire format");
static_assert(std::atomic<std::uint64_t>::is_always_lock_free, "rings cross processes");

inline constexpr std::uint64_t kSleeping = 1ULL << 32;

// Layout of a channel: RingIndexes to_core, RingIndexes to_worker, Notice to_core[capacity],
// Notice to_worker[capacity]. Fresh memory (zeroes) is an empty channel.
constexpr std::size_t channel_bytes(std::uint32_t capacity) {
  return 2 * (sizeof(RingIndexes) + capacity * sizeof(Notice));
}

// Capacity of a ring that never fills when each of `chunks` is outstanding at most once, beside
// the Hyper notices of one round.
constexpr std::uint32_t channel_capacity(std::uint32_t chunks) {
  return std::bit_ceil(chunks + 64);
}

}  // namespace phub::transport
