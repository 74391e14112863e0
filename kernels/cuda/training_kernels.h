// The device kernels around a training step; training_arguments.h says what they do, and
// network_kernels.h how they are called.
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/cuda/sparse_arguments.h"
#include "kernels/cuda/training_arguments.h"

namespace phub::kernels::cuda {

cudaError_t run(const LoadParameters& arguments, cudaStream_t stream);
cudaError_t run(const PublishGradients& arguments, cudaStream_t stream);
cudaError_t run(const SoftmaxLoss& arguments, cudaStream_t stream);
cudaError_t run(const OptimizerStep& arguments, cudaStream_t stream);
cudaError_t run(const PrepareImages& arguments, cudaStream_t stream);
cudaError_t run(const CountMagnitudes& arguments, cudaStream_t stream);

}  // namespace phub::kernels::cuda
