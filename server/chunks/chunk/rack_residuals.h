// The residual of a rack's sums on one core: what compression or rounding left out of them when
// they went to another rack.
//
// There are two arrays. `rest_side` of a ShardChunk is the array of the rounds behind the chunk.
// The round under way writes the other array, which holds from the round's end on. Data of a Shard;
// its core's thread only.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "server/chunks/chunk/shard_chunk.h"

namespace phub::server {

class RackResiduals {
 public:
  // `arrays`: two arrays of `stride` elements each, in the job's memory; null: there is no
  // residual.
  RackResiduals(float* arrays, std::size_t stride) : arrays_(arrays), stride_(stride) {}

  bool is_there() const { return arrays_ != nullptr; }
  // These three REQUIRE is_there.
  // Returns the chunk's residual from the rounds behind it.
  std::span<const float> of(const ShardChunk& chunk) const {
    return {arrays_ + chunk.rest_side * stride_ + chunk.place.home, chunk.place.elements};
  }
  // Returns the place for the chunk's residual of the round under way, which is to be written.
  std::span<float> next(ShardChunk& chunk) {
    chunk.has_next_rest = true;
    return {other(chunk), chunk.place.elements};
  }
  // Copies `elements` elements from `offset` of the chunk on to the next residual, if there is one.
  // The update of that part was left out, so its residual stays.
  void keep(const ShardChunk& chunk, std::uint32_t offset, std::uint32_t elements) {
    if (!chunk.has_next_rest) return;
    std::copy_n(of(chunk).data() + offset, elements, other(chunk) + offset);
  }
  // Ends the chunk's round: the next residual, if there is one, becomes the chunk's residual.
  static void end(ShardChunk& chunk) {
    if (!chunk.has_next_rest) return;
    chunk.has_next_rest = false;
    chunk.rest_side = 1 - chunk.rest_side;
  }

 private:
  float* other(const ShardChunk& chunk) const {
    return arrays_ + (1 - chunk.rest_side) * stride_ + chunk.place.home;
  }

  float* arrays_;
  std::size_t stride_;
};

}  // namespace phub::server
