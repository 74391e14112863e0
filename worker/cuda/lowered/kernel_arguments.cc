#include "worker/cuda/lowered/kernel_arguments.h"

#include "worker/nn/dropout.h"

namespace phub::nn::cuda {
namespace {

struct ArgumentsBuilder {
  const Lowered& lowered;
  const KernelStep& step;
  const KernelMemory& memory;

  const Dimensions& dimensions(std::size_t i) const {
    return lowered.buffer(step.buffers[i]).dimensions;
  }
  std::int64_t rows(std::size_t i) const {
    const Dimensions& d = dimensions(i);
    return d[0] * d[2] * d[3];
  }
  std::int64_t channels(std::size_t i) const { return dimensions(i)[1]; }
  void* at(std::size_t i) const { return memory.address(step.buffers[i]); }
  float* floats(std::size_t i) const { return static_cast<float*>(at(i)); }

  kernels::cuda::FinalizeStatistics finalize() const {
    return {floats(0),   floats(1),   floats(2),  floats(3),    floats(4),    floats(5),
            floats(6),   floats(7),   floats(8),  floats(9),    at(10),       at(11),
            memory.type, channels(0), step.count, step.epsilon, step.momentum};
  }
  kernels::cuda::InferenceFactors factors() const {
    return {floats(0), floats(1), floats(2),   floats(3),
            floats(4), floats(5), channels(0), step.epsilon};
  }
  kernels::cuda::ApplyBatchNormBackward apply() const {
    return {at(0), at(1),       floats(2), floats(3),  floats(4),
            at(5), memory.type, rows(0),   channels(0)};
  }
  kernels::cuda::BiasGradient bias_gradient() const {
    return {at(0), floats(1), floats(2), memory.type, rows(0), channels(0), dimensions(1)[0]};
  }
  kernels::cuda::CopyChannels copy() const {
    return {at(0),       at(1),         memory.type, rows(0), channels(0),
            channels(1), step.channels, step.from,   step.to, step.clear_to};
  }
  kernels::cuda::ApplySubsample subsample(std::size_t large, std::size_t small) const {
    const Dimensions& l = dimensions(large);
    const Dimensions& s = dimensions(small);
    return {at(0), at(1), memory.type, l[0],        l[2],          l[3],   l[1],
            s[2],  s[3],  s[1],        step.stride, step.channels, step.to};
  }
  kernels::cuda::ApplyDropout dropout() const {
    return {at(0),
            at(1),
            memory.dropout_key,
            DropoutMask(0, "", step.ratio).threshold(),
            1.0F / (1.0F - step.ratio),
            memory.type,
            rows(0),
            channels(0),
            step.channels};
  }
  std::int8_t* index(std::size_t i) const { return static_cast<std::int8_t*>(at(i)); }
  kernels::cuda::PoolShape pool_shape(std::size_t large, std::size_t small) const {
    const auto narrow = [](std::int64_t value) { return static_cast<std::int32_t>(value); };
    const Dimensions& l = dimensions(large);
    const Dimensions& s = dimensions(small);
    const auto& [size, stride, before, after] = step.window;
    return {narrow(l[0]),      narrow(l[2]),      narrow(l[3]),      narrow(l[1]),
            narrow(s[2]),      narrow(s[3]),      narrow(size[0]),   narrow(size[1]),
            narrow(stride[0]), narrow(stride[1]), narrow(before[0]), narrow(before[1])};
  }
  kernels::cuda::ScaledPool scaled_pool() const {
    return {at(0), floats(1), floats(2), index(3), at(4), at(5), memory.type, pool_shape(0, 5)};
  }
  kernels::cuda::ScaledPoolSums scaled_pool_sums() const {
    return {at(0),       at(1),     index(2),    floats(3),
            floats(4),   floats(5), floats(6),   floats(7),
            floats(8),   floats(9), floats(10),  floats(11),
            memory.type, rows(0),   channels(0), dimensions(6)[0] / 2,
            step.count};
  }
  kernels::cuda::ScaledPoolBackward scaled_pool_backward() const {
    return {at(0),     at(1), index(2),    floats(3),       floats(4),
            floats(5), at(6), memory.type, pool_shape(1, 0)};
  }
};

}  // namespace

LaunchArguments arguments_of(const Lowered& lowered, const KernelStep& step,
                             const KernelMemory& memory) {
  const ArgumentsBuilder builder{lowered, step, memory};
  switch (step.kernel) {
    case Kernel::kFinalizeStatistics:
      return builder.finalize();
    case Kernel::kInferenceFactors:
      return builder.factors();
    case Kernel::kKeepStatistics:
      return KeepStatistics{builder.floats(0), builder.floats(1), builder.floats(2),
                            builder.floats(3), builder.channels(0)};
    case Kernel::kApplyBatchNormBackward:
      return builder.apply();
    case Kernel::kBiasGradient:
      return builder.bias_gradient();
    case Kernel::kCopyChannels:
      return builder.copy();
    case Kernel::kSubsample:
      return builder.subsample(0, 1);
    case Kernel::kSubsampleBackward:
      return SubsampleBackward{builder.subsample(1, 0)};
    case Kernel::kDropout:
      return builder.dropout();
    case Kernel::kScaledPool:
      return builder.scaled_pool();
    case Kernel::kScaledPoolSums:
      return builder.scaled_pool_sums();
    case Kernel::kScaledPoolBackward:
      break;
  }
  return builder.scaled_pool_backward();
}

}  // namespace phub::nn::cuda
