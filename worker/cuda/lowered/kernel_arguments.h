// A KernelStep with memory: the arguments of the kernel that it means.
//
// The backend gives addresses on the device and the compute type, the interpreter of tests its own.
// Pure functions.
#pragma once

#include <cstdint>
#include <functional>
#include <variant>

#include "common/base/dtype.h"
#include "kernels/cuda/network_arguments.h"
#include "worker/cuda/lowered/lowered.h"

namespace phub::nn::cuda {

// The running statistics, as cuDNN wrote them aside: copied over those of before.
struct KeepStatistics {
  const float *next_mean, *next_variance;
  float *mean, *variance;
  std::int64_t channels;
};

struct SubsampleBackward {
  kernels::cuda::ApplySubsample arguments;
};

using LaunchArguments =
    std::variant<kernels::cuda::FinalizeStatistics, kernels::cuda::InferenceFactors, KeepStatistics,
                 kernels::cuda::ApplyBatchNormBackward, kernels::cuda::BiasGradient,
                 kernels::cuda::ChannelStatistics, kernels::cuda::CopyChannels,
                 kernels::cuda::ApplySubsample, SubsampleBackward, kernels::cuda::ApplyDropout,
                 kernels::cuda::ScaledPool, kernels::cuda::ScaledPoolSums,
                 kernels::cuda::ScaledPoolBackward>;

struct KernelMemory {
  std::function<void*(BufferId)> address;
  DataType type = DataType::kFloat16;          // of what is not fp32 by its nature
  const std::uint64_t* dropout_key = nullptr;  // of the step's layer: nn::DropoutMask::key()
};

LaunchArguments arguments_of(const Lowered& lowered, const KernelStep& step,
                             const KernelMemory& memory);

}  // namespace phub::nn::cuda
