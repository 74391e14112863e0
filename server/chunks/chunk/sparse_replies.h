// Replies that have only what an update changed of a chunk, as a sparse push has it
// (common/protocol/sparse_push.h), where that is smaller than the chunk.
//
// They go by tcp and verbs; over shm a worker reads the parameters where they are. Who has all
// replies before has the chunk's parameters, bit for bit: elements are compared as they
// travel. Data of a Shard; its core's thread only. Nothing allocates after it is made.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "common/protocol/sparse_push.h"
#include "common/protocol/window_layout.h"
#include "server/job/layout.h"

namespace phub::server {

class SparseReplies {
 public:
  // `memory`: where replies are written, a chunk's at its home; outlives this.
  SparseReplies(const JobLayout& layout, std::size_t chunks, std::byte* memory);

  // Around an update of a chunk, whose published parameters these are.
  void begin(std::span<const std::byte> published);
  void end(std::uint32_t slot, std::uint64_t home, std::span<const std::byte> published);

  // Where one lands over verbs, in bytes from a worker's parameters on, less the chunk's offset in
  // the arena; and what its window has at least then.
  std::uint64_t landing() const { return landing_; }
  bool fits(std::uint64_t window_bytes) const { return window_bytes >= window_bytes_; }

  // Of the last update; empty: the reply is whole. It stays as it is until the next one's end.
  std::span<const std::byte> reply(std::uint32_t slot, std::uint64_t home) const {
    return {memory_ + home * size_of(type_), bytes_[slot]};
  }

 private:
  // Finds the elements that changed; false: they are too many.
  template <typename Bits>
  bool compare(std::span<const std::byte> published);

  const DataType type_;
  std::byte* const memory_;
  const std::uint64_t landing_;
  const std::uint64_t window_bytes_;
  std::vector<std::uint32_t> bytes_;    // by slot; 0: whole
  std::vector<std::byte> before_;       // a chunk's parameters, as they travel
  std::vector<std::uint32_t> changed_;  // their indices, as many as fit in a reply
  std::size_t count_ = 0;
};

inline SparseReplies::SparseReplies(const JobLayout& layout, std::size_t chunks, std::byte* memory)
    : type_(layout.wire_type),
      memory_(memory),
      landing_(changes_offset(*layout.plan, size_of(layout.wire_type), clips_over_servers(layout))),
      window_bytes_(parameters_and_changes_bytes(*layout.plan, size_of(layout.wire_type),
                                                 clips_over_servers(layout))),
      bytes_(chunks),
      before_(layout.plan->max_chunk_elements * size_of(type_)),
      changed_(layout.plan->max_chunk_elements) {}

inline void SparseReplies::begin(std::span<const std::byte> published) {
  std::memcpy(before_.data(), published.data(), published.size());
}

template <typename Bits>
bool SparseReplies::compare(std::span<const std::byte> published) {
  const auto at = [](const std::byte* values, std::size_t i) {
    Bits bits;
    std::memcpy(&bits, values + i * sizeof(Bits), sizeof(bits));
    return bits;
  };
  constexpr std::size_t kAtOnce = sizeof(std::uint64_t) / sizeof(Bits);
  const std::size_t elements = published.size() / sizeof(Bits);
  count_ = 0;
  for (std::size_t i = 0; i < elements; i += kAtOnce) {
    const std::size_t end = std::min(elements, i + kAtOnce);
    const std::size_t first = i * sizeof(Bits);
    const bool are_same =
        end - i == kAtOnce &&
        std::memcmp(before_.data() + first, published.data() + first, sizeof(std::uint64_t)) == 0;
    if (are_same) continue;
    for (std::size_t j = i; j < end; ++j) {
      const bool is_same = at(before_.data(), j) == at(published.data(), j);
      if (!is_same) changed_[count_++] = static_cast<std::uint32_t>(j);
    }
    if (!wire::is_smaller_sparse(count_, elements, type_)) return false;
  }
  return true;
}

inline void SparseReplies::end(std::uint32_t slot, std::uint64_t home,
                               std::span<const std::byte> published) {
  const std::size_t width = size_of(type_);
  const bool is_smaller = wire::is_smaller_sparse(0, published.size() / width, type_) &&
                          (width == sizeof(float) ? compare<std::uint32_t>(published)
                                                  : compare<std::uint16_t>(published));
  if (!is_smaller) {
    bytes_[slot] = 0;
    return;
  }
  bytes_[slot] = static_cast<std::uint32_t>(wire::sparse_bytes(count_, type_));
  const wire::SparsePlace to =
      wire::begin_sparse(memory_ + home * width, static_cast<std::uint32_t>(count_));
  std::memcpy(to.indices, changed_.data(), count_ * sizeof(std::uint32_t));
  for (std::size_t i = 0; i < count_; ++i) {
    std::memcpy(to.values + i * width, published.data() + changed_[i] * width, width);
  }
}

}  // namespace phub::server
