// A Shard of a job with sparse pushes, beside the dense ones of shard_rig.h.
#pragma once

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "common/protocol/sparse_push.h"
#include "tests/support/server/shard_rig.h"

namespace phub::testing {

inline server::JobLayout sparse_layout(RuleKind rule, std::uint32_t workers, DataType type) {
  server::JobLayout layout = deferred_layout(rule, workers, type);
  layout.encoding = Encoding::kSparse;
  return layout;
}

// What is pushed of a chunk: all of it, or some of its elements.
struct SparseChunk {
  std::vector<std::uint32_t> indices;
  std::vector<float> values;
};

class SparseRig : public ShardRig {
 public:
  using ShardRig::ShardRig;

  server::PushResult push_sparse(std::uint32_t worker, std::uint32_t slot, bool staged,
                                 const SparseChunk& some) {
    auto& kept = in_place_.emplace_back(wire::sparse_bytes(some.indices.size(), layout.wire_type));
    const auto to =
        wire::begin_sparse(kept.data(), static_cast<std::uint32_t>(some.indices.size()));
    std::copy(some.indices.begin(), some.indices.end(), to.indices);
    kernels::reference::convert(to.values, layout.wire_type,
                                reinterpret_cast<const std::byte*>(some.values.data()),
                                DataType::kFloat32, some.values.size());
    return push_bytes(worker, slot, staged, kept);
  }

  // What is not 0 of a chunk; all of it where that is no more bytes.
  server::PushResult push_some(std::uint32_t worker, std::uint32_t slot, std::mt19937& random,
                               const Value& value) {
    const Plan& plan = *layout.plan;
    const Chunk& chunk = plan.chunks[plan.core_chunks[0][0][slot]];
    SparseChunk some;
    for (std::uint32_t s = 0; s < chunk.segment_count; ++s) {
      const Segment& segment = plan.segments[chunk.first_segment + s];
      for (std::uint32_t i = 0; i < segment.elements; ++i) {
        const float own = value(worker, segment.key, segment.key_offset + i);
        if (own == 0.0F) continue;
        some.indices.push_back(segment.chunk_offset + i);
        some.values.push_back(own);
      }
    }
    const bool staged = random() % 2 == 0;
    return wire::is_smaller_sparse(some.indices.size(), chunk.elements, layout.wire_type)
               ? push_sparse(worker, slot, staged, some)
               : push(worker, slot, staged, value);
  }

  server::PushResult push_bytes(std::uint32_t worker, std::uint32_t slot, bool staged,
                                std::vector<std::byte>& bytes) {
    const std::size_t size = bytes.size();
    if (layout.checksums) bytes.resize(size + sizeof(std::uint32_t));
    std::byte* place = bytes.data();
    if (staged) {
      place = staging->take_for_push();
      REQUIRE(place != nullptr);
      std::copy_n(bytes.begin(), size, place);
    }
    return arrive(worker, slot, {place, size}, staged);
  }

  std::uint32_t elements(std::uint32_t slot) const {
    return static_cast<std::uint32_t>(shard->push_bytes(slot) / size_of(layout.wire_type));
  }

 private:
  std::vector<std::vector<std::byte>> in_place_;
};

// Every seventh element or so of a chunk, whose values need all bits of a sum.
inline SparseChunk some_of(std::uint32_t elements, std::mt19937& random) {
  SparseChunk some;
  for (std::uint32_t i = 0; i < elements; ++i) {
    if (random() % 7 != 0) continue;
    some.indices.push_back(i);
    some.values.push_back(std::ldexp(1.0F + static_cast<float>(random() % 97) / 97.0F,
                                     static_cast<int>(random() % 12)));
  }
  return some;
}

}  // namespace phub::testing
