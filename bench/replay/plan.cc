#include "bench/replay/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numeric>

#include "bench/simulate/simulate.h"
#include "common/text/table.h"

namespace phub::bench::replay {
namespace {

constexpr std::uint64_t kElementsMost = std::uint64_t{1} << 36;

// Traces tell bytes of fp32.
std::uint64_t elements_of(double bytes) {
  return static_cast<std::uint64_t>(std::ceil(bytes / sizeof(float)));
}

Result<ReplayPlan> plan_of_trace(const PlanSource& source) {
  simulate::SimulateOptions options;
  options.trace = source.trace;
  options.forward_ratio = source.forward_ratio;
  PHUB_ASSIGN_OR_RETURN(const simulate::LayerTrace trace, simulate::trace_of(options));
  ReplayPlan plan{.network = trace.name, .times = "as the trace " + source.trace};
  plan.loss = trace.loss;
  if (!trace.has_forward) {
    plan.times += fmt::format(" (forward {:g} of backward)", source.forward_ratio);
  }
  for (const simulate::TraceLayer& layer : trace.layers) {
    plan.layers.push_back(
        {.name = layer.name, .forward = layer.forward, .backward = layer.backward});
    if (layer.bytes > 0) plan.layers.back().keys.push_back(elements_of(layer.bytes));
  }
  return plan;
}

Result<ReplayPlan> plan_of_model(const PlanSource& source) {
  PHUB_ASSIGN_OR_RETURN(auto layers, model_layers(source));
  return ReplayPlan{.network = source.model,
                    .times = fmt::format("given: {} forward and {} backward, shared out by {}",
                                         human_time(source.forward), human_time(source.backward),
                                         source.spread == "flops" ? "operations" : "bytes"),
                    .layers = std::move(layers)};
}

}  // namespace

Policy policy_of(std::string_view word) {
  const auto found =
      std::find(std::begin(simulate::kPolicyNames), std::end(simulate::kPolicyNames), word);
  return static_cast<Policy>(found - std::begin(simulate::kPolicyNames));
}

std::vector<std::uint64_t> ReplayPlan::keys() const {
  std::vector<std::uint64_t> all;
  for (const ReplayLayer& layer : layers) {
    all.insert(all.end(), layer.keys.begin(), layer.keys.end());
  }
  return all;
}

std::uint64_t ReplayPlan::elements() const {
  const std::vector<std::uint64_t> all = keys();
  return std::accumulate(all.begin(), all.end(), std::uint64_t{0});
}

double ReplayPlan::compute() const {
  double seconds = loss;
  for (const ReplayLayer& layer : layers) seconds += layer.forward + layer.backward;
  return seconds;
}

simulate::LayerTrace ReplayPlan::trace(DataType wire) const {
  simulate::LayerTrace trace;
  trace.name = network;
  trace.loss = loss;
  for (const ReplayLayer& layer : layers) {
    const std::uint64_t sum =
        std::accumulate(layer.keys.begin(), layer.keys.end(), std::uint64_t{0});
    trace.layers.push_back({.name = layer.name,
                            .forward = layer.forward,
                            .backward = layer.backward,
                            .bytes = static_cast<double>(sum * size_of(wire))});
  }
  return trace;
}

Result<ReplayPlan> plan_of(const PlanSource& source) {
  PHUB_ASSIGN_OR_RETURN(ReplayPlan plan,
                        source.model.empty() ? plan_of_trace(source) : plan_of_model(source));
  plan.policy = source.policy;
  plan.shrink = source.shrink;
  double elements = 0.0;  // whose sum does not overflow
  for (ReplayLayer& layer : plan.layers) {
    for (std::uint64_t& key : layer.keys) {
      key = std::max<std::uint64_t>(
          1, static_cast<std::uint64_t>(std::llround(static_cast<double>(key) / source.shrink)));
      elements += static_cast<double>(key);
    }
  }
  if (elements > static_cast<double>(kElementsMost)) {
    return Status(Code::kInvalidArgument,
                  fmt::format("{}: its layers have {:g} elements; at most {} can be exchanged; "
                              "shrink them",
                              plan.network, elements, kElementsMost));
  }
  return plan;
}

}  // namespace phub::bench::replay
