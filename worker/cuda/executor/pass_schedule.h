// Where in a pass parameters are awaited and gradients are whole.
//
// Worked out from the buffers that steps name, not from their layers: a fused step reads and writes
// for its neighbours. Pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "worker/cuda/lowered/runner.h"
#include "worker/nn/executor.h"
#include "worker/nn/graph/graph.h"

namespace phub::nn::cuda {

// The keys of each layer that has some, in forward order.
std::vector<KeyRange> layer_keys(const Graph& graph);

// Steps [first, last), and what has to be there before the first of them.
struct Segment {
  std::size_t first = 0, last = 0;
  std::vector<std::size_t> layers = {};  // positions in layer_keys()
};

// Cuts a forward pass into at most `segments` of about as many steps each, so that it can begin
// before the last parameters have come. Every layer is in one; all steps are.
std::vector<Segment> forward_segments(const Lowered& lowered, Pass pass,
                                      const std::vector<KeyRange>& layers, std::size_t segments);

// After the steps up to `end` of the backward pass the layer's gradients are whole.
struct GradientMark {
  std::size_t end = 0;
  std::size_t layer = 0;  // position in layer_keys()
};

// In ascending order of their ends, those with the same end in backward order.
std::vector<GradientMark> gradient_marks(const Lowered& lowered,
                                         const std::vector<KeyRange>& layers);

}  // namespace phub::nn::cuda
