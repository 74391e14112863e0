#include "worker/train/exchange/initialise.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "common/base/check.h"
#include "common/samples/random.h"

namespace phub::train {
namespace {

// Box and Muller; the C++ library's normal distribution differs between implementations.
float normal(CounterRandom& random) {
  const double radius = std::sqrt(-2.0 * std::log(1.0 - static_cast<double>(random.uniform())));
  const double angle = 2.0 * std::numbers::pi * static_cast<double>(random.uniform());
  return static_cast<float>(radius * std::cos(angle));
}

}  // namespace

void fill_initial(const nn::ParameterSpec& spec, std::uint64_t seed, std::uint64_t key,
                  std::span<float> values) {
  PHUB_CHECK(values.size() == spec.elements(), "as many values as the parameter has");
  if (spec.fill == nn::Fill::kZero || spec.fill == nn::Fill::kOne) {
    std::fill(values.begin(), values.end(), spec.fill == nn::Fill::kOne ? 1.0F : 0.0F);
    return;
  }
  const double gain = spec.fill == nn::Fill::kHeNormal ? 2.0 : 1.0;
  const auto deviation = static_cast<float>(std::sqrt(gain / static_cast<double>(spec.fan_in())));
  CounterRandom random(seed, Purpose::kParameters, key, 0);
  for (float& value : values) value = deviation * normal(random);
}

void fill_initial(const nn::Executor& network, std::uint64_t seed, GradientExchange& exchange) {
  for (KeyId key = 0; key < network.parameters().size(); ++key) {
    fill_initial(network.parameters()[key], seed, key, exchange.gradient(key));
  }
}

std::vector<KeySpec> keys_of(const nn::Executor& network) {
  std::vector<KeySpec> keys;
  for (const nn::ParameterSpec& spec : network.parameters()) {
    keys.push_back({.name = spec.name, .elements = spec.elements()});
  }
  return keys;
}

Status bind(nn::Executor& network, GradientExchange& exchange, bool sums) {
  if (!sums && network.binds(exchange.facts().wire_type)) {
    std::vector<nn::TypedBinding> typed;
    for (KeyId key = 0; key < network.parameters().size(); ++key) {
      typed.push_back({exchange.wire_parameter(key), exchange.wire_gradient(key)});
    }
    exchange.use_wire_arrays();
    return network.bind_typed({.type = exchange.facts().wire_type, .keys = typed});
  }
  std::vector<nn::Binding> bindings;
  for (KeyId key = 0; key < network.parameters().size(); ++key) {
    bindings.push_back({exchange.parameter(key), exchange.gradient(key)});
  }
  return network.bind(bindings);
}

}  // namespace phub::train
