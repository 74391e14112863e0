// Initial parameters, as a pure function of the seed and the parameter's position and shape.
#pragma once

#include <cstdint>
#include <span>

#include "worker/nn/graph.h"

namespace phub::train {

// Weights are normal with variance 2 / fan-in (He et al., "Delving deep into rectifiers", 2015) or
// 1 / fan-in (LeCun et al., "Efficient backprop", 1998), as the layer says.
void fill_initial(const nn::ParameterSpec& spec, std::uint64_t seed, std::uint64_t key,
                  std::span<float> values);

}  // namespace phub::train
