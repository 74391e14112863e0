#include "worker/nn/graph/cost.h"

#include <string>

#include "common/base/check.h"

namespace phub::nn {
namespace {

bool multiplies(const Layer& layer) {
  return std::holds_alternative<Convolution>(layer.kind) ||
         std::holds_alternative<InnerProduct>(layer.kind);
}

// Each element of the output is one product of as long a row as the weights' fan-in.
std::uint64_t multiply_adds_of(const Layer& layer, const Shape& output) {
  return multiplies(layer) ? output.elements() * layer.parameters[0].fan_in() : 0;
}

}  // namespace

Status check_cost(const Graph& graph) {
  constexpr double kOperationsMax = 0x1p60;
  double operations = 0.0;
  for (std::size_t index = 0; index < graph.layers().size(); ++index) {
    const Layer& layer = graph.layers()[index];
    if (multiplies(layer)) {
      const auto outputs = static_cast<double>(graph.shape(index + 1).elements());
      const auto row = static_cast<double>(layer.parameters[0].fan_in());
      constexpr double kPasses = 3.0;  // forward, and at most two backward
      operations += 2.0 * kPasses * outputs * row;
    }
    if (operations > kOperationsMax) {
      return {Code::kInvalidArgument,
              "layer " + layer.name +
                  ": with it a step takes more than 2^60 operations for each image, which no "
                  "machine can do; use fewer channels or a smaller image"};
    }
  }
  return {};
}

LayerCost cost_of(const Graph& graph, std::size_t layer) {
  PHUB_CHECK(layer < graph.layers().size(), "a layer of the graph");
  const Layer& each = graph.layers()[layer];
  const Shape& output = graph.shape(layer + 1);
  LayerCost cost{.multiply_adds = multiply_adds_of(each, output),
                 .backward_passes = each.inputs[0] == 0 ? 1U : 2U,
                 .output_elements = output.elements()};
  for (const ParameterSpec& spec : each.parameters) cost.parameters += spec.elements();
  return cost;
}

NetworkCost cost_of(const Graph& graph) {
  NetworkCost sum;
  for (std::size_t layer = 0; layer < graph.layers().size(); ++layer) {
    const LayerCost cost = cost_of(graph, layer);
    sum.parameters += cost.parameters;
    sum.multiply_adds += cost.multiply_adds;
    sum.forward_flops += cost.forward_flops();
    sum.backward_flops += cost.backward_flops();
    sum.activations += cost.output_elements;
    if (std::holds_alternative<BatchNorm>(graph.layers()[layer].kind)) {
      sum.buffers += 2ULL * graph.shape(layer + 1).channels;  // mean and variance
    }
  }
  return sum;
}

}  // namespace phub::nn
