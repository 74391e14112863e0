// Which replies a worker still waits for, by chunk and by key, and where each of them lands.
//
// Belongs to the Exchange's thread. A chunk is pushed when all keys that have a part in it are; a
// key is ready when the replies to all chunks that hold a part of it are there.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/base/dtype.h"
#include "common/plan/plan.h"
#include "common/protocol/keys.h"
#include "common/protocol/sparse_push.h"
#include "common/transport/transport.h"

namespace phub::client {

class DueReplies {
 public:
  // The plan outlives it.
  DueReplies(const Plan& plan, DataType wire_type);

  // The arena that replies are copied to; null: they are read where the server published them.
  void land_in(std::byte* parameters) { parameters_ = parameters; }

  // Replies may have only what changed of a chunk. Those come in here, at the chunk's place, and
  // are written to the arena when they are taken; null: replies are whole. REQUIRES: land_in an
  // arena.
  void land_sparse_in(std::byte* memory) { sparse_ = memory; }

  bool may_be_sparse() const { return sparse_ != nullptr; }

  // The key is pushed: calls send(chunk) for each chunk of which it was the last one missing.
  // REQUIRES: ready(key).
  template <typename Send>
  void push(KeyId key, Send send) {
    keys_[key] = {.remaining = plan_.chunk_count[key], .skipped = false};
    ++keys_under_way_;
    const std::uint32_t first = plan_.first_chunk[key];
    for (std::uint32_t id = first; id < first + plan_.chunk_count[key]; ++id) {
      if (--chunks_[id].missing > 0) continue;
      chunks_[id].due = true;
      send(plan_.chunks[id]);
    }
  }

  // Takes the reply to one of a core's chunks. Not kNone: it is none that was due.
  transport::Loss take(const std::vector<std::uint32_t>& core_chunks,
                       const transport::Completion& arrived);
  // Where that reply goes; null if it is not due.
  std::byte* place(const std::vector<std::uint32_t>& core_chunks, std::uint32_t immediate,
                   std::uint32_t bytes) const;

  bool is_due(std::uint32_t chunk) const { return chunks_[chunk].due; }
  bool ready(KeyId key) const { return keys_[key].remaining == 0; }
  bool idle() const { return keys_under_way_ == 0; }
  // Whether a reply to a chunk of the key said that its update was left out.
  bool was_skipped(KeyId key) const { return keys_[key].skipped; }
  // Of one chunk: the last one did.
  bool chunk_was_skipped(std::uint32_t chunk) const { return chunks_[chunk].skipped; }

  std::uint32_t bytes_of(const Chunk& chunk) const {
    return static_cast<std::uint32_t>(chunk.elements * element_bytes_);
  }
  // Of a reply, at least.
  std::uint32_t least_bytes_of(const Chunk& chunk) const {
    return sparse_ == nullptr ? bytes_of(chunk) : std::min(bytes_of(chunk), kLeastSparseBytes);
  }
  std::uint64_t offset_of(const Chunk& chunk) const { return chunk.arena_offset * element_bytes_; }

 private:
  static constexpr auto kLeastSparseBytes =
      static_cast<std::uint32_t>(wire::sparse_bytes(0, DataType::kFloat32));

  bool write_changes(const Chunk& chunk, const transport::Completion& arrived);

  struct ChunkState {
    std::uint32_t missing = 0;  // segments whose keys are not pushed yet
    bool due = false;
    bool skipped = false;
  };
  struct KeyState {
    std::uint32_t remaining = 0;  // chunks whose reply is not there yet
    bool skipped = false;
  };

  const Plan& plan_;
  DataType type_;
  std::size_t element_bytes_;
  std::byte* parameters_ = nullptr;
  std::byte* sparse_ = nullptr;
  std::vector<ChunkState> chunks_;
  std::vector<KeyState> keys_;
  std::uint64_t keys_under_way_ = 0;
};

}  // namespace phub::client
