// What makes sense in a layer, and the shape that it gives. Pure functions.
#pragma once

#include <span>

#include "common/base/status.h"
#include "worker/nn/graph/graph.h"

namespace phub::nn {

// The largest tensor of one image and the largest parameter, in elements: what fits backends'
// 32-bit offsets.
inline constexpr std::uint64_t kTensorElementsMax = std::uint64_t{1} << 31U;

// Errors: kInvalidArgument, "FIELD: what is wrong; the cure". Fields are those of
// proto/network.proto.
Result<Shape> output_shape_of(const LayerKind& kind, std::span<const Shape> inputs);

}  // namespace phub::nn
