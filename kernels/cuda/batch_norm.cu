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

// Bound by memory: two reads and a write of eight elements, vectors from the caches.
template <typename T>
__global__ void apply_backward(ApplyBatchNormBackward a) {
  const auto* dy = static_cast<const Eight<T>*>(a.dy);
  const auto* x = static_cast<const Eight<T>*>(a.x);
  auto* dx = static_cast<Eight<T>*>(a.dx);
  const std::int64_t groups = a.channels / 8;
  for (std::int64_t i = first_index(); i < a.rows * groups; i += index_stride()) {
    const std::int64_t c = i % groups * 8;
    const Eight<T> gradient = dy[i], value = x[i];
    Eight<T> result;
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      const float sum = a.dy_factor[c + j] * to_float(gradient.values[j]) +
                        a.x_factor[c + j] * to_float(value.values[j]) + a.constant[c + j];
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
