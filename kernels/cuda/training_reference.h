// The scalar specification of the kernels around a training step, on the host. For tests, and to
// read; any thread.
#pragma once

#include "kernels/cuda/sparse_arguments.h"
#include "kernels/cuda/training_arguments.h"

namespace phub::kernels::cuda::reference {

void run(const LoadParameters& arguments);
void run(const PublishGradients& arguments);
void run(const SoftmaxLoss& arguments);
void run(const OptimizerStep& arguments);
void run(const PrepareImages& arguments);
void run(const CountMagnitudes& arguments);

}  // namespace phub::kernels::cuda::reference
