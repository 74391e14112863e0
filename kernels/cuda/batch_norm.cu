#include "kernels/cuda/elements.cuh"
#include "kernels/cuda/network_kernels.h"

namespace phub::kernels::cuda {
namespace {

__global__ void finalize_statistics(FinalizeStatistics a) {
  const auto count = static_cast<float>(a.count);
  for (std::int64_t c = first_index(); c < a.channels; c += index_stride()) {
    const float mean = a.sum[c] / count;
    const float variance = fmaxf(a.sum_of_squares[c] / count - mean * mean, 0.0F);
    const float unbiased = a.count > 1 ? variance * (count / (count - 1.0F)) : variance;
    const float inverse = 1.0F / sqrtf(variance + a.epsilon);
    const float factor = a.scale[c] * inverse;
    const float offset = a.bias[c] - mean * factor;
    a.mean[c] = mean;
    a.inverse_deviation[c] = inverse;
    a.factor[c] = factor;
    a.offset[c] = offset;
    store(a.factor16, a.type, c, factor);
    store(a.offset16, a.type, c, offset);
    a.running_mean[c] += a.momentum * (mean - a.running_mean[c]);
    a.running_variance[c] += a.momentum * (unbiased - a.running_variance[c]);
  }
}

__global__ void inference_factors(InferenceFactors a) {
  for (std::int64_t c = first_index(); c < a.channels; c += index_stride()) {
    const float factor = a.scale[c] / sqrtf(a.running_variance[c] + a.epsilon);
    a.factor[c] = factor;
    a.offset[c] = a.bias[c] - a.running_mean[c] * factor;
  }
}

// Eight channels' numbers, in vector accesses.
struct Linear {
  Eight<float> dy_factor, x_factor, constant;

  __device__ void load(const ApplyBatchNormBackward& a, std::int64_t channel) {
    dy_factor = *reinterpret_cast<const Eight<float>*>(a.dy_factor + channel);
    x_factor = *reinterpret_cast<const Eight<float>*>(a.x_factor + channel);
    constant = *reinterpret_cast<const Eight<float>*>(a.constant + channel);
  }
};

// Bound by memory: two reads and a write of eight elements. The stride is a multiple of kThreads,
// so where the groups of eight channels divide it a thread keeps its channels, and loads their
// numbers once: they are as many bytes as six groups of elements.
template <typename T>
__global__ void __launch_bounds__(kThreads) apply_backward(ApplyBatchNormBackward a) {
  const auto* __restrict__ dy = static_cast<const Eight<T>*>(a.dy);
  const auto* __restrict__ x = static_cast<const Eight<T>*>(a.x);
  auto* __restrict__ dx = static_cast<Eight<T>*>(a.dx);
  const std::int64_t groups = a.channels / 8, all = a.rows * groups, stride = index_stride();
  const bool keeps_channels = stride % groups == 0;
  Linear linear;
  if (keeps_channels) linear.load(a, first_index() % groups * 8);
#pragma unroll 2
  for (std::int64_t i = first_index(); i < all; i += stride) {
    const Eight<T> gradient = dy[i], value = x[i];
    if (!keeps_channels) linear.load(a, i % groups * 8);
    Eight<T> result;
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      const float sum = linear.dy_factor.values[j] * to_float(gradient.values[j]) +
                        linear.x_factor.values[j] * to_float(value.values[j]) +
                        linear.constant.values[j];
      result.values[j] = from_float<T>(sum);
    }
    dx[i] = result;
  }
}

}  // namespace

cudaError_t run(const FinalizeStatistics& a, cudaStream_t stream) {
  finalize_statistics<<<blocks_for(a.channels), kThreads, 0, stream>>>(a);
  return cudaGetLastError();
}

cudaError_t run(const InferenceFactors& a, cudaStream_t stream) {
  inference_factors<<<blocks_for(a.channels), kThreads, 0, stream>>>(a);
  return cudaGetLastError();
}

cudaError_t run(const ApplyBatchNormBackward& a, cudaStream_t stream) {
  if (a.channels % 8 != 0) return cudaErrorInvalidValue;
  return with_type(a.type, [&](auto element) {
    using T = decltype(element);
    apply_backward<T><<<blocks_for(a.rows * a.channels / 8), kThreads, 0, stream>>>(a);
  });
}

}  // namespace phub::kernels::cuda
