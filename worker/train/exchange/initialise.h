// Initial parameters, as a pure function of the seed and of position and shape; and where they
// live.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "common/base/status.h"
#include "worker/nn/executor.h"
#include "worker/train/exchange/gradient_exchange.h"

namespace phub::train {

// Weights are normal with variance 2 / fan-in (He et al., "Delving deep into rectifiers", 2015) or
// 1 / fan-in (LeCun et al., "Efficient backprop", 1998), as the layer says.
void fill_initial(const nn::ParameterSpec& spec, std::uint64_t seed, std::uint64_t key,
                  std::span<float> values);
// Of all parameters, in the exchange's gradient arrays, for its initialise.
void fill_initial(const nn::Executor& network, std::uint64_t seed, GradientExchange& exchange);

// The parameters as keys without weight decay.
std::vector<KeySpec> keys_of(const nn::Executor& network);

// Binds the executor's parameters and their gradients to the exchange's arrays: where the executor
// can, to those that travel. Not so with `sums`, where somebody adds gradients up in between.
Status bind(nn::Executor& network, GradientExchange& exchange, bool sums = false);

}  // namespace phub::train
