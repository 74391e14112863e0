// The device kernels between cuDNN's graphs; network_arguments.h says what they do.
//
// Queued on the stream, capturable into CUDA graphs, no allocation. The result is that of the
// launch: what goes wrong on the device is told by a later call. Any thread with the device
// current.
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/cuda/network_arguments.h"

namespace phub::kernels::cuda {

cudaError_t run(const FinalizeStatistics& arguments, cudaStream_t stream);
cudaError_t run(const InferenceFactors& arguments, cudaStream_t stream);
cudaError_t run(const ApplyBatchNormBackward& arguments, cudaStream_t stream);
cudaError_t run(const BiasGradient& arguments, cudaStream_t stream);
cudaError_t run(const ChannelStatistics& arguments, cudaStream_t stream);
cudaError_t run(const CopyChannels& arguments, cudaStream_t stream);
cudaError_t run_forward(const ApplySubsample& arguments, cudaStream_t stream);
cudaError_t run_backward(const ApplySubsample& arguments, cudaStream_t stream);
cudaError_t run(const ApplyDropout& arguments, cudaStream_t stream);
cudaError_t run(const ScaledPool& arguments, cudaStream_t stream);
cudaError_t run(const ScaledPoolSums& arguments, cudaStream_t stream);
cudaError_t run(const ScaledPoolBackward& arguments, cudaStream_t stream);

}  // namespace phub::kernels::cuda
