// What a step of a lowered network costs by arithmetic alone. Pure functions; any thread.
#pragma once

#include <cstdint>

#include "worker/cuda/lowered/lowered.h"

namespace phub::nn::cuda {

struct StepCost {
  std::uint64_t bytes = 0;  // of its buffers, each once
  std::uint64_t flops = 0;  // of its convolutions, padded channels included
};

StepCost cost_of(const Lowered& lowered, const Step& step);

}  // namespace phub::nn::cuda
