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

  std::int8_t* index(std::size_t i) const { return static_cast<std::int8_t*>(at(i)); }
  kernels::cuda::ApplySubsample subsample(std::size_t large, std::size_t small) const {
    const Dimensions& l = dimensions(large);
    const Dimensions& s = dimensions(small);
    return {at(0), at(1), memory.type, l[0],        l[2],          l[3],   l[1],
            s[2],  s[3],  s[1],        step.stride, step.channels, step.to};
  }
  kernels::cuda::PoolShape pool_shape(std::size_t large, std::size_t small) const {
    const auto narrow = [](std::int64_t value) { return static_cast<std::int32_t>(value); };
    const Dimensions& l = dimensions(large);
    const Dimensions& s = dimensions(small);
    const auto& [size, stride, before, after] = step.window;
    return {narrow(l[0]),      narrow(l[2]),      narrow(l[3]),      narrow(l[1]),
            narrow(s[2]),      narrow(s[3]),      narrow(size[0]),   narrow(size[1]),
            narrow(stride[0]), narrow(stride[1]), narrow(before[0]), narrow(before[1])};
  }
};

}  // namespace

LaunchArguments arguments_of(const Lowered& lowered, const KernelStep& step,
                             const KernelMemory& memory) {
  using namespace kernels::cuda;
  const ArgumentsBuilder b{lowered, step, memory};
  const DataType type = memory.type;
  switch (step.kernel) {
    case Kernel::kFinalizeStatistics:
      return FinalizeStatistics{b.floats(0),  b.floats(1),  b.floats(2), b.floats(3),   b.floats(4),
                                b.floats(5),  b.floats(6),  b.floats(7), b.floats(8),   b.floats(9),
                                b.at(10),     b.at(11),     type,        b.channels(0), step.count,
                                step.epsilon, step.momentum};
    case Kernel::kInferenceFactors:
      return InferenceFactors{b.floats(0), b.floats(1), b.floats(2),   b.floats(3),
                              b.floats(4), b.floats(5), b.channels(0), step.epsilon};
    case Kernel::kKeepStatistics:
      return KeepStatistics{b.floats(0), b.floats(1), b.floats(2), b.floats(3), b.channels(0)};
    case Kernel::kApplyBatchNormBackward:
      return ApplyBatchNormBackward{b.at(0), b.at(1), b.floats(2), b.floats(3),  b.floats(4),
                                    b.at(5), type,    b.rows(0),   b.channels(0)};
    case Kernel::kBiasGradient:
      return BiasGradient{b.at(0),   b.floats(1),   b.floats(2),       type,
                          b.rows(0), b.channels(0), b.dimensions(1)[0]};
    case Kernel::kChannelStatistics:
      return ChannelStatistics{b.at(0), b.floats(1), b.floats(2),   b.floats(3),
                               type,    b.rows(0),   b.channels(0), b.dimensions(1)[0] / 2};
    case Kernel::kCopyChannels:
      return CopyChannels{b.at(0),       b.at(1),       type,      b.rows(0), b.channels(0),
                          b.channels(1), step.channels, step.from, step.to,   step.clear_to};
    case Kernel::kSubsample:
      return b.subsample(0, 1);
    case Kernel::kSubsampleBackward:
      return SubsampleBackward{b.subsample(1, 0)};
    case Kernel::kDropout:
      return ApplyDropout{b.at(0),
                          b.at(1),
                          memory.dropout_key,
                          DropoutMask(0, "", step.ratio).threshold(),
                          1.0F / (1.0F - step.ratio),
                          type,
                          b.rows(0),
                          b.channels(0),
                          step.channels};
    case Kernel::kScaledPool:
      return ScaledPool{b.at(0), b.floats(1), b.floats(2), b.index(3),
                        b.at(4), b.at(5),     type,        b.pool_shape(0, 5)};
    case Kernel::kScaledPoolSums:
      return ScaledPoolSums{b.at(0),     b.at(1),     b.index(2),    b.floats(3),
                            b.floats(4), b.floats(5), b.floats(6),   b.floats(7),
                            b.floats(8), b.floats(9), b.floats(10),  b.floats(11),
                            type,        b.rows(0),   b.channels(0), b.dimensions(6)[0] / 2,
                            step.count};
    case Kernel::kScaledPoolBackward:
      break;
  }
  return ScaledPoolBackward{b.at(0),     b.at(1), b.index(2), b.floats(3),       b.floats(4),
                            b.floats(5), b.at(6), type,       b.pool_shape(1, 0)};
}

}  // namespace phub::nn::cuda
