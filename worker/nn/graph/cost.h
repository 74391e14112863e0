// What a network costs by arithmetic alone: parameters, operations, memory. Pure functions.
//
// Operations are those of convolutions and inner products, as papers and torchvision count them; a
// multiply-add is two. What normalisation, activations and pools add is below one per cent of a
// CNN's operations; it is memory traffic that they cost.
#pragma once

#include <cstdint>
#include <vector>

#include "common/base/status.h"
#include "worker/nn/graph/graph.h"

namespace phub::nn {

// Of one layer and one image.
struct LayerCost {
  std::uint64_t parameters = 0;     // elements; shared by all images
  std::uint64_t multiply_adds = 0;  // of the forward pass
  // How many more passes of that size backward takes: one for the weights and, unless the layer
  // reads the network's input, one for its input.
  std::uint32_t backward_passes = 0;
  std::uint64_t output_elements = 0;

  std::uint64_t forward_flops() const { return 2 * multiply_adds; }
  std::uint64_t backward_flops() const { return forward_flops() * backward_passes; }
};

// A network whose operations for one image could not be counted is none that anybody can run.
// kInvalidArgument names the layer with which forward and backward exceed 2^60 of them.
Status check_cost(const Graph& graph);

// REQUIRES: layer < graph.layers().size(), and check_cost.
LayerCost cost_of(const Graph& graph, std::size_t layer);

// Of all layers and one image.
struct NetworkCost {
  std::uint64_t parameters = 0;
  std::uint64_t buffers = 0;  // elements of running statistics, which are not exchanged
  std::uint64_t multiply_adds = 0;
  std::uint64_t forward_flops = 0;
  std::uint64_t backward_flops = 0;
  std::uint64_t activations = 0;  // elements of all layers' outputs
};

// REQUIRES: check_cost.
NetworkCost cost_of(const Graph& graph);

}  // namespace phub::nn
