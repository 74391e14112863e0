// What members are replied to with: a chunk's parameters, or what its last update changed of them.
//
// Data of a Shard; its core's thread only. Nothing allocates after it is made.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "server/chunks/chunk/chunk_parameters.h"
#include "server/chunks/chunk/sparse_replies.h"

namespace phub::server {

class ChunkReplies {
 public:
  // The last two outlive it.
  ChunkReplies(const JobLayout& layout, const std::vector<ShardChunk>& chunks,
               const ChunkParameters& parameters)
      : chunks_(chunks), parameters_(parameters) {
    const auto& memory = *parameters.memory();
    if (memory.sparse_replies != nullptr) {
      changes_.emplace(layout, chunks.size(), memory.sparse_replies);
    }
  }

  // Around an update of the chunk.
  void begin_update(std::uint32_t slot) {
    if (changes_) changes_->begin(whole(slot));
  }
  void end_update(std::uint32_t slot) {
    if (changes_) changes_->end(slot, chunks_[slot].place.home, whole(slot));
  }

  std::span<const std::byte> whole(std::uint32_t slot) const {
    return parameters_.published(chunks_[slot].place);
  }
  // Whether some replies may have only what changed, for a member that has had all replies before.
  bool may_be_changes() const { return changes_.has_value(); }
  // REQUIRES: may_be_changes.
  std::span<const std::byte> smallest(std::uint32_t slot) const {
    const auto changed = changes_->reply(slot, chunks_[slot].place.home);
    return changed.empty() ? whole(slot) : changed;
  }

  // Where a chunk is in the plan's arena, in bytes of the wire type.
  std::uint64_t offset(std::uint32_t slot) const {
    return parameters_.arena_bytes(chunks_[slot].place);
  }
  // The same in what this server publishes.
  std::uint64_t offset_here(std::uint32_t slot) const {
    return chunks_[slot].place.home * size_of(parameters_.wire_type());
  }
  // Where a device writes changes, in bytes from the worker's parameters on; and whether a worker's
  // window has the place.
  std::uint64_t changes_offset(std::uint32_t slot) const {
    return changes_->landing() + offset(slot);
  }
  bool may_write_changes(std::uint64_t window_bytes) const {
    return changes_ && changes_->fits(window_bytes);
  }

 private:
  const std::vector<ShardChunk>& chunks_;
  const ChunkParameters& parameters_;
  std::optional<SparseReplies> changes_;  // none: replies are whole
};

}  // namespace phub::server
