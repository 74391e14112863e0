// Queues one of our own kernels' steps on a stream.
#pragma once

#include <cuda_runtime_api.h>

#include "common/base/status.h"
#include "worker/cuda/lowered/kernel_arguments.h"
#include "worker/cuda/lowered/lowered.h"

namespace phub::nn::cuda {

// REQUIRES: a step with a KernelStep. Errors carry the step's name.
Status launch(const Lowered& lowered, const Step& step, const KernelMemory& memory,
              cudaStream_t stream);

}  // namespace phub::nn::cuda
