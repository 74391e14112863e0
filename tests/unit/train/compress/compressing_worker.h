// A worker that pushes compressed gradients, and a server that adds them up, without either.
#pragma once

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstring>
#include <optional>
#include <random>
#include <vector>

#include "common/protocol/sparse_push.h"
#include "kernels/quantise_reference.h"
#include "kernels/reference.h"
#include "worker/compress/compressor.h"

namespace phub::compress {

// A job of a worker: keys, plan, arena; and the sum of what was pushed, as a server would add it.
struct Worker {
  Worker(const std::vector<std::uint64_t>& elements, DataType wire_type,
         const CompressOptions& options, bool votes = false)
      : type(wire_type),
        encoding(options.encoding),
        plan(*make_plan({.key_elements = elements,
                         .wire_type = wire_type,
                         .chunk_bytes = 4096,
                         .cores_per_server = {2}})),
        arena((plan.arena_elements * size_of(wire_type) + 63) / 64 * 16),
        keys(elements.size()),
        pushed(elements.size()),
        sums(elements.size()) {
    for (std::size_t key = 0; key < elements.size(); ++key) {
      keys[key].elements = elements[key];
      pushed[key].resize(elements[key]);
      sums[key].resize(elements[key]);
    }
    compressor.emplace(plan, keys, wire_type, options, votes);
  }

  std::byte* at(std::uint64_t element) {
    return reinterpret_cast<std::byte*>(arena.data()) + element * size_of(type);
  }

  // Pushes a gradient; `pushed` is what arrives of it, `sums` of all. Returns the bytes.
  std::uint64_t push(KeyId key, const std::vector<float>& gradient) {
    kernels::reference::convert(at(plan.key_offset[key]), type,
                                reinterpret_cast<const std::byte*>(gradient.data()),
                                DataType::kFloat32, gradient.size());
    compressor->compress(key, at(0));
    std::uint64_t bytes = 0;
    pushed[key].assign(pushed[key].size(), 0.0F);
    for (std::uint32_t i = 0; i < plan.chunk_count[key]; ++i) {
      bytes += arrive(key, plan.first_chunk[key] + i);
    }
    for (std::size_t i = 0; i < sums[key].size(); ++i) sums[key][i] += pushed[key][i];
    return bytes;
  }

  // Of a chunk that only this key has a part in, or one that is whole.
  std::uint32_t arrive(KeyId key, std::uint32_t id) {
    const Chunk& chunk = plan.chunks[id];
    const std::uint32_t bytes = compressor->push_bytes()[id];
    const std::byte* const place = at(chunk.arena_offset);
    const bool is_whole = bytes == chunk.elements * size_of(type);
    if (!is_whole && encoding != Encoding::kSparse) {
      const std::uint64_t offset = chunk.arena_offset - plan.key_offset[key];
      kernels::reference::add_quantised({pushed[key].data() + offset, chunk.elements}, place,
                                        kernels::bits_of(encoding));
      return bytes;
    }
    if (!is_whole) {
      const auto parsed = wire::parse_sparse({place, bytes}, type, chunk.elements);
      REQUIRE(parsed.fault == wire::SparseFault::kNone);
      const std::uint64_t offset = chunk.arena_offset - plan.key_offset[key];
      for (std::uint32_t i = 0; i < parsed.push.count; ++i) {
        pushed[key][offset + parsed.push.indices[i]] =
            kernels::reference::load(parsed.push.values, type, i);
      }
      return bytes;
    }
    for (std::uint32_t s = 0; s < chunk.segment_count; ++s) {
      const Segment& segment = plan.segments[chunk.first_segment + s];
      if (segment.key != key) continue;
      for (std::uint32_t i = 0; i < segment.elements; ++i) {
        pushed[key][segment.key_offset + i] =
            kernels::reference::load(place, type, segment.chunk_offset + i);
      }
    }
    return bytes;
  }

  DataType type;
  Encoding encoding;
  Plan plan;
  std::vector<float> arena;
  std::vector<KeySpec> keys;
  std::optional<Compressor> compressor;
  std::vector<std::vector<float>> pushed, sums;
};

// Whole numbers, of which sums are exact.
inline std::vector<float> whole_numbers(std::size_t elements, std::mt19937& random) {
  std::vector<float> values(elements);
  for (float& value : values) value = static_cast<float>(static_cast<int>(random() % 201) - 100);
  return values;
}

inline std::size_t count_of(const std::vector<float>& values) {
  return values.size() - static_cast<std::size_t>(std::count(values.begin(), values.end(), 0.0F));
}

}  // namespace phub::compress
