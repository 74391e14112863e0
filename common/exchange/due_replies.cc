#include "common/exchange/due_replies.h"

#include <cstring>

#include "common/protocol/wire.h"

namespace phub::client {

using transport::Loss;

DueReplies::DueReplies(const Plan& plan, DataType wire_type)
    : plan_(plan),
      type_(wire_type),
      element_bytes_(size_of(wire_type)),
      chunks_(plan.chunks.size()),
      keys_(plan.key_offset.size()) {
  for (std::size_t i = 0; i < chunks_.size(); ++i) {
    chunks_[i].missing = plan.chunks[i].segment_count;
  }
}

Loss DueReplies::take(const std::vector<std::uint32_t>& core_chunks,
                      const transport::Completion& arrived) {
  const std::uint32_t slot = wire::reply_slot_of(arrived.immediate);
  if (slot >= core_chunks.size()) return Loss::kBadFrame;
  const std::uint32_t id = core_chunks[slot];
  const Chunk& chunk = plan_.chunks[id];
  ChunkState& state = chunks_[id];
  if (!state.due) return Loss::kBadLength;
  if (arrived.bytes != bytes_of(chunk)) {
    if (!write_changes(chunk, arrived)) return Loss::kBadLength;
  } else if (parameters_ != nullptr) {
    std::byte* home = parameters_ + offset_of(chunk);
    if (arrived.data != home) std::memcpy(home, arrived.data, arrived.bytes);
  }
  const bool skipped = wire::was_skipped(arrived.immediate);
  state = {.missing = chunk.segment_count, .due = false, .skipped = skipped};
  for (std::uint32_t i = 0; i < chunk.segment_count; ++i) {
    KeyState& key = keys_[plan_.segments[chunk.first_segment + i].key];
    key.skipped = key.skipped || skipped;
    if (--key.remaining == 0) --keys_under_way_;
  }
  return Loss::kNone;
}

std::byte* DueReplies::place(const std::vector<std::uint32_t>& core_chunks, std::uint32_t immediate,
                             std::uint32_t bytes) const {
  const std::uint32_t slot = wire::reply_slot_of(immediate);
  if (slot >= core_chunks.size()) return nullptr;
  const std::uint32_t id = core_chunks[slot];
  const Chunk& chunk = plan_.chunks[id];
  if (!chunks_[id].due) return nullptr;
  if (bytes == bytes_of(chunk)) return parameters_ + offset_of(chunk);
  const bool is_sparse = sparse_ != nullptr && bytes < bytes_of(chunk);
  return is_sparse ? sparse_ + offset_of(chunk) : nullptr;
}

// What else came is no reply. Over verbs the server can write there while it is read, so each index
// is read once more, and looked at again.
bool DueReplies::write_changes(const Chunk& chunk, const transport::Completion& arrived) {
  if (sparse_ == nullptr || arrived.data != sparse_ + offset_of(chunk)) return false;
  const auto parsed = wire::parse_sparse({arrived.data, arrived.bytes}, type_, chunk.elements);
  if (parsed.fault != wire::SparseFault::kNone) return false;
  const wire::SparsePush& changed = parsed.push;
  std::byte* const home = parameters_ + offset_of(chunk);
  for (std::uint32_t i = 0; i < changed.count; ++i) {
    const std::uint32_t index = *static_cast<const volatile std::uint32_t*>(changed.indices + i);
    if (index >= chunk.elements) return false;
    std::memcpy(home + index * element_bytes_, changed.values + i * element_bytes_, element_bytes_);
  }
  return true;
}

}  // namespace phub::client
