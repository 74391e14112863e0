// Built-in networks as layers with keys and times.
#include "worker/nn/models/models.h"

#include <fmt/format.h>

#include "bench/replay/plan.h"
#include "worker/nn/graph/cost.h"

namespace phub::bench::replay {
namespace {

// What a layer's times are in proportion to.
struct Weight {
  double forward = 0.0;
  double backward = 0.0;
};

Weight weight_of(const nn::LayerCost& cost, bool by_operations) {
  if (by_operations) {
    return {static_cast<double>(cost.forward_flops()), static_cast<double>(cost.backward_flops())};
  }
  const auto bytes = static_cast<double>(cost.parameters * sizeof(float));
  return {bytes, bytes};
}

}  // namespace

Result<std::vector<ReplayLayer>> model_layers(const PlanSource& source) {
  PHUB_ASSIGN_OR_RETURN(const nn::Graph graph, nn::make_model(source.model));
  PHUB_RETURN_IF_ERROR(nn::check_cost(graph));
  Weight all;
  std::vector<ReplayLayer> layers;
  for (std::size_t i = 0; i < graph.layers().size(); ++i) {
    const Weight weight = weight_of(nn::cost_of(graph, i), source.spread == "flops");
    const nn::Layer& layer = graph.layers()[i];
    if (layer.parameters.empty() && weight.forward <= 0) continue;
    all.forward += weight.forward;
    all.backward += weight.backward;
    ReplayLayer& added = layers.emplace_back();
    added.name = layer.name;
    added.forward = weight.forward;
    added.backward = weight.backward;
    for (const nn::ParameterSpec& spec : layer.parameters) added.keys.push_back(spec.elements());
  }
  for (ReplayLayer& layer : layers) {
    layer.forward *= source.forward / all.forward;
    layer.backward *= source.backward / all.backward;
  }
  return layers;
}

}  // namespace phub::bench::replay
