#include <algorithm>
#include <cstdint>

#include "kernels/cuda/device_code.h"
#include "kernels/cuda/reduce.cuh"
#include "kernels/cuda/training_kernels.h"

namespace phub::kernels::cuda {
namespace {

// As many blocks as keep any GPU's memory busy; each counts its share in registers, and adds its
// counts to all blocks' at its end.
constexpr std::int64_t kMostBlocks = 2048;

__device__ unsigned magnitude(float value) { return __float_as_uint(value) & 0x7FFFFFFFU; }

__global__ void count_magnitudes(CountMagnitudes a) {
  __shared__ unsigned long long room[kThreads];
  unsigned thresholds[kCountedThresholds];
  unsigned long long counts[kCountedThresholds];
  PHUB_UNROLL
  for (int t = 0; t < kCountedThresholds; ++t) {
    // Above every magnitude where there is none.
    thresholds[t] = t < a.threshold_count ? magnitude(a.thresholds[t]) : 0x80000000U;
    counts[t] = 0;
  }
  const std::int64_t stride = std::int64_t{gridDim.x} * kThreads;
  for (std::int64_t i = std::int64_t{blockIdx.x} * kThreads + threadIdx.x; i < a.elements;
       i += stride) {
    const unsigned own = magnitude(a.values[i]);
    PHUB_UNROLL
    for (int t = 0; t < kCountedThresholds; ++t) counts[t] += own >= thresholds[t] ? 1U : 0U;
  }
  const auto add = [](unsigned long long x, unsigned long long y) { return x + y; };
  PHUB_UNROLL
  for (int t = 0; t < kCountedThresholds; ++t) {
    const unsigned long long sum = block_reduce(counts[t], room, add);
    if (threadIdx.x == 0 && t < a.threshold_count) atomicAdd(a.counts + t, sum);
  }
}

}  // namespace

cudaError_t run(const CountMagnitudes& a, cudaStream_t stream) {
  if (a.elements == 0 || a.threshold_count == 0) return cudaSuccess;
  const std::int64_t blocks = std::min((a.elements + kThreads - 1) / kThreads, kMostBlocks);
  count_magnitudes<<<static_cast<unsigned>(blocks), kThreads, 0, stream>>>(a);
  return cudaGetLastError();
}

}  // namespace phub::kernels::cuda
