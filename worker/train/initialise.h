// Initial parameters, as a pure function of the seed and the parameter's position and shape.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "worker/nn/graph.h"

namespace phub::train {

// Weights are normal with variance 2 / fan-in (He et al., "Delving deep into rectifiers", 2015) or
// 1 / fan-in (LeCun et al., "Efficient backprop", 1998), as the layer says.
void fill_initial(const nn::ParameterSpec& spec, std::uint64_t seed, std::uint64_t key,
                  std::span<float> values);

// Names of the scales ("gamma") of the batch normalisations that residual branches end with: those
// whose output is the first input of an Add. Starting at 0 they make each block an identity (Goyal
// et al., "Accurate, large minibatch SGD", 2017, section 5.1).
std::vector<std::string> last_gammas(const nn::Graph& graph);

}  // namespace phub::train
