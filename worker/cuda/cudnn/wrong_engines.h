// Rules about engines of cuDNN that computed wrong values on GPUs.
#pragma once

#include <string_view>

#include "worker/cuda/lowered/op_graph.h"
#include "worker/cuda/tuning/engine_choice.h"

namespace phub::nn::cuda {

// Why the engine must not run the graph, for people; empty if nothing is known against it.
std::string_view why_wrong(const OpGraph& graph, const EngineChoice& choice);

}  // namespace phub::nn::cuda
