#include "server/chunks/pushes/value_watch.h"

#include <cmath>
#include <cstring>

#include "common/protocol/sparse_push.h"
#include "kernels/quantise.h"

namespace phub::server {

ValueWatch::ValueWatch(const JobLayout& layout, std::uint32_t core,
                       const std::vector<ShardChunk>& chunks)
    : fails_(layout.watch_values == WatchValues::kFail),
      first_round_(has_parameters(layout.rule) ? 1 : 0),
      type_(layout.wire_type),
      encoding_(layout.encoding),
      chunks_(chunks),
      plan_(layout.plan),
      ids_(plan_->core_chunks[layout.server_index][core]),
      workers_(layout.workers) {}

void ValueWatch::look_at(const Pushed& push, kernels::Source values, std::size_t elements) {
  if (kernels::all_finite(values, elements)) return;
  // Who shares the memory may have changed it since.
  const std::size_t element = kernels::first_not_finite(values, elements);
  if (element == elements) return;
  float value = 0.0F;
  kernels::convert(reinterpret_cast<std::byte*>(&value), DataType::kFloat32,
                   values.data + element * size_of(values.type), values.type, 1);
  if (!std::isfinite(value)) found(push, element, value);
}

void ValueWatch::look_at_packed(const Pushed& push, const std::byte* data) {
  if (encoding_ == Encoding::kSparse) {
    const wire::SparsePush some = wire::sparse_at(data);
    const std::size_t i = kernels::first_not_finite({some.values, type_}, some.count);
    if (i == some.count) return;
    float value = 0.0F;
    kernels::convert(reinterpret_cast<std::byte*>(&value), DataType::kFloat32,
                     some.values + i * size_of(type_), type_, 1);
    return found(push, some.indices[i], value);
  }
  const std::size_t stride = kernels::quantised_block_bytes(kernels::bits_of(encoding_));
  const std::size_t elements = chunks_[push.slot].place.elements;
  for (std::size_t element = 0; element < elements; element += kernels::kQuantisedBlock) {
    float scale = 0.0F;
    std::memcpy(&scale, data, sizeof(scale));
    if (!std::isfinite(scale)) return found(push, element, scale);
    data += stride;
  }
}

void ValueWatch::found(const Pushed& push, std::size_t element, float value) {
  WorkerValues& worker = workers_[push.worker];
  worker.last = at(push.slot, element, value);
  if (worker.pushes == 0) worker.first = worker.last;
  ++worker.pushes;
  has_found_ = true;
  findings.add(1);
}

NotFinite ValueWatch::at(std::uint32_t slot, std::size_t element, float value) const {
  const Chunk& chunk = plan_->chunks[ids_[slot]];
  const Segment* segment = &plan_->segments[chunk.first_segment];
  const Segment* const end = segment + chunk.segment_count;
  while (segment + 1 < end && segment[1].chunk_offset <= element) ++segment;
  return {.round = chunks_[slot].rounds + 1 - first_round_,
          .key = segment->key,
          .element = segment->key_offset + (element - segment->chunk_offset),
          .value = value};
}

}  // namespace phub::server
