// A device whose times a test makes up, and what was chosen by them.
#pragma once

#include <algorithm>
#include <functional>
#include <string>
#include <variant>
#include <vector>

#include "tests/cuda/networks.h"
#include "tests/cuda/support/require.h"
#include "tests/cuda/tuning/fusion_networks.h"
#include "worker/cuda/tuning/fusion_search.h"
#include "worker/nn/models/models.h"

namespace phub::nn::cuda {

using phub::testing::require;

inline const EngineScope kScope{91900, "a device of a test"};

// The same for equal texts, between 1 and 2.
inline double made_up(const std::string& text, std::uint64_t seed) {
  const std::uint64_t hash = std::hash<std::string>{}(std::to_string(seed) + text);
  return 1.0 + static_cast<double>(hash % 4096) / 4096.0;
}

template <typename Op>
bool has(const OpGraph& graph) {
  return std::any_of(
      graph.operations().begin(), graph.operations().end(),
      [](const Operation& operation) { return std::holds_alternative<Op>(operation); });
}

template <typename Op>
bool has(const Lowered& lowered) {
  for (const auto* steps : {&lowered.forward, &lowered.backward}) {
    for (const Step& step : *steps) {
      const auto* graph = std::get_if<GraphStep>(&step.work);
      if (graph != nullptr && has<Op>(graph->graph)) return true;
    }
  }
  return false;
}

class FakeDevice : public StepDevice {
 public:
  Status supports(const OpGraph& graph) override {
    return lacks(graph) ? Status(Code::kNotFound, "no engine for it") : Status();
  }
  Result<double> microseconds(const BlockWay& way) override {
    ++measured;
    double sum = 0.0;
    for (const Step* step : way.steps) {
      const auto* graph = std::get_if<GraphStep>(&step->work);
      if (graph != nullptr && fails(graph->graph)) return Status(Code::kInternal, "it fell over");
      sum += time(cost_key(*way.lowered, *step));
    }
    return sum;
  }
  double total(const Lowered& lowered) const {
    double sum = 0.0;
    for (const auto* steps : {&lowered.forward, &lowered.backward}) {
      for (const Step& step : *steps) sum += time(cost_key(lowered, step));
    }
    return sum;
  }

  std::function<double(const std::string& key)> time = [](const std::string&) { return 1.0; };
  std::function<bool(const OpGraph&)> lacks = [](const OpGraph&) { return false; };
  std::function<bool(const OpGraph&)> fails = [](const OpGraph&) { return false; };
  std::size_t measured = 0;
};

inline std::vector<std::string> keys_of(const Lowered& lowered) {
  std::vector<std::string> keys;
  for (const auto* steps : {&lowered.forward, &lowered.backward, &lowered.inference}) {
    for (const Step& step : *steps) keys.push_back(cost_key(lowered, step));
  }
  return keys;
}

inline EngineCache memory_cache() { return require(EngineCache::open({}, kScope)); }

inline Graph network(const std::string& name) {
  if (name == "ResNet-20") return resnet20(10);
  if (name == "ResNet-50's blocks") return testing::bottlenecks();
  if (name == "VGG-16's blocks") return testing::vgg_blocks();
  if (name == "GoogLeNet's blocks") return testing::inceptions();
  return testing::blocks();
}

}  // namespace phub::nn::cuda
