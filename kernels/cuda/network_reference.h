// The scalar specification of the kernels between cuDNN's graphs: one element at a time, plain C++,
// on the host. Kernels must agree to rounding. For tests, and to read; any thread.
#pragma once

#include "kernels/cuda/network_arguments.h"

namespace phub::kernels::cuda::reference {

void run(const FinalizeStatistics& arguments);
void run(const InferenceFactors& arguments);
void run(const ApplyBatchNormBackward& arguments);
void run(const BiasGradient& arguments);
void run(const ChannelStatistics& arguments);
void run(const CopyChannels& arguments);
void run_forward(const ApplySubsample& arguments);
void run_backward(const ApplySubsample& arguments);
void run(const ApplyDropout& arguments);
void run(const ScaledPool& arguments);
void run(const ScaledPoolSums& arguments);
void run(const ScaledPoolBackward& arguments);

}  // namespace phub::kernels::cuda::reference
