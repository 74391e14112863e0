#include "worker/nn/cost.h"

#include "common/base/check.h"

namespace phub::nn {
namespace {

// Each element of the output is one product of as long a row as the weights' fan-in.
std::uint64_t multiply_adds_of(const Layer& layer, const Shape& output) {
  const bool multiplies = std::holds_alternative<Convolution>(layer.kind) ||
                          std::holds_alternative<InnerProduct>(layer.kind);
  return multiplies ? output.elements() * layer.parameters[0].fan_in() : 0;
}

}  // namespace

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
