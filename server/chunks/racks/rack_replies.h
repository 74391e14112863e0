// What each rack below was replied to with last, chunk by chunk, where racks are replied to at
// different times. A reply stays as it is until the rack has pushed the chunk again, because a rack
// that is stopped reads it late.
//
// Data of an OpenSteps; its core's thread only. Pages that are not written take no memory.
#pragma once

#include <cstring>
#include <memory>
#include <span>
#include <vector>

#include "server/chunks/chunk/shard_chunk.h"

namespace phub::server {

class RackReplies {
 public:
  RackReplies(std::uint32_t racks, std::span<const ShardChunk> chunks) {
    for (const ShardChunk& chunk : chunks) {
      begins_.push_back(bytes_);
      if (chunk.is_root) bytes_ += chunk.place.elements * sizeof(float);
    }
    lengths_.resize(racks * chunks.size());
    for (std::uint32_t rack = 0; rack < racks; ++rack) {
      // NOLINTNEXTLINE(*-avoid-c-arrays): pages that nobody touches
      memory_.push_back(std::make_unique_for_overwrite<std::byte[]>(bytes_));
    }
  }

  // REQUIRES: the chunk ends here, and the rack has read its last reply.
  void write(std::uint32_t rack, std::uint32_t slot, std::span<const float> values) {
    std::memcpy(memory_[rack].get() + begins_[slot], values.data(), values.size_bytes());
    lengths_[at(rack, slot)] = static_cast<std::uint32_t>(values.size_bytes());
  }
  // Empty: there was none yet.
  std::span<const std::byte> of(std::uint32_t rack, std::uint32_t slot) const {
    return {memory_[rack].get() + begins_[slot], lengths_[at(rack, slot)]};
  }

 private:
  std::size_t at(std::uint32_t rack, std::uint32_t slot) const {
    return rack * begins_.size() + slot;
  }

  std::size_t bytes_ = 0;                             // of a rack
  std::vector<std::size_t> begins_;                   // by slot
  std::vector<std::uint32_t> lengths_;                // [rack][slot]
  std::vector<std::unique_ptr<std::byte[]>> memory_;  // NOLINT(*-avoid-c-arrays): by rack
};

}  // namespace phub::server
