// Runs one cuDNN graph (worker/cuda/lowered/op_graph.h) on the host, in fp32 with sums in double.
#pragma once

#include <span>

#include "worker/cuda/lowered/op_graph.h"

namespace phub::testing {

// `memory`: of each kDevice operand, in their order.
void interpret(const nn::cuda::OpGraph& graph, std::span<const std::span<float>> memory);

}  // namespace phub::testing
