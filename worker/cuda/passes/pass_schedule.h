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
struct PassSegment {
  std::size_t first = 0, last = 0;
  std::vector<std::size_t> layers = {};  // positions in layer_keys()

  bool operator==(const PassSegment&) const = default;
};

// After the steps up to `end` of the backward pass the layer's gradients are whole.
struct GradientMark {
  std::size_t end = 0;
  std::size_t layer = 0;  // position in layer_keys()

  bool operator==(const GradientMark&) const = default;
};

// Of a network on a device.
struct PassSchedule {
  std::vector<KeyRange> layers;  // layer_keys()
  // Of about as many steps each, so that a pass can begin before the last parameters have come.
  // Every layer is in one; all steps are.
  std::vector<PassSegment> forward, inference;
  // In ascending order of their ends, those with the same end in backward order.
  std::vector<GradientMark> marks;
  std::size_t backward_steps = 0;

  bool operator==(const PassSchedule&) const = default;
  // REQUIRES: a forward pass.
  const std::vector<PassSegment>& segments(Pass pass) const {
    return pass == Pass::kForward ? forward : inference;
  }
};
// With at most `segments` of a forward pass.
PassSchedule make_schedule(const Graph& graph, const Lowered& lowered, std::size_t segments);

}  // namespace phub::nn::cuda
