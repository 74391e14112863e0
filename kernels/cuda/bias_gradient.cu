#include "kernels/cuda/elements.cuh"
#include "kernels/cuda/network_kernels.h"

namespace phub::kernels::cuda {
namespace {

constexpr int kLanes = 8;  // threads side by side: 8 channels each, so 128 bytes of 16-bit rows
constexpr int kRows = 32;  // threads one above the other

// A block sums 64 channels of one part of the rows.
template <typename T>
__global__ void sum_parts(BiasGradient a) {
  __shared__ float sums[kRows][kLanes * 8];
  const std::int64_t group = blockIdx.x * kLanes + threadIdx.x;
  const std::int64_t groups = a.channels / 8;
  const std::int64_t part_rows = (a.rows + a.parts - 1) / a.parts;
  const std::int64_t first = blockIdx.y * part_rows;
  const std::int64_t end = first + part_rows < a.rows ? first + part_rows : a.rows;
  float own[8] = {};
  if (group < groups) {
    const auto* dy = static_cast<const Eight<T>*>(a.dy);
    for (std::int64_t row = first + threadIdx.y; row < end; row += kRows) {
      const Eight<T> gradient = dy[row * groups + group];
#pragma unroll
      for (int j = 0; j < 8; ++j) own[j] += to_float(gradient.values[j]);
    }
  }
#pragma unroll
  for (int j = 0; j < 8; ++j) sums[threadIdx.y][threadIdx.x * 8 + j] = own[j];
  __syncthreads();
  const int lane = threadIdx.y * kLanes + threadIdx.x;
  const std::int64_t channel = static_cast<std::int64_t>(blockIdx.x) * kLanes * 8 + lane;
  if (lane >= kLanes * 8 || channel >= a.channels) return;
  float sum = 0.0F;
  for (int row = 0; row < kRows; ++row) sum += sums[row][lane];
  a.part_sums[blockIdx.y * a.channels + channel] = sum;
}

__global__ void add_parts(BiasGradient a) {
  for (std::int64_t c = first_index(); c < a.channels; c += index_stride()) {
    float sum = 0.0F;
    for (std::int64_t part = 0; part < a.parts; ++part) sum += a.part_sums[part * a.channels + c];
    a.gradient[c] = sum;
  }
}

}  // namespace

cudaError_t run(const BiasGradient& a, cudaStream_t stream) {
  if (a.channels % 8 != 0) return cudaErrorInvalidValue;
  const dim3 threads(kLanes, kRows);
  const dim3 blocks(static_cast<unsigned>((a.channels + kLanes * 8 - 1) / (kLanes * 8)),
                    static_cast<unsigned>(a.parts));
  const cudaError_t queued = with_type(a.type, [&](auto element) {
    sum_parts<decltype(element)><<<blocks, threads, 0, stream>>>(a);
  });
  if (queued != cudaSuccess) return queued;
  add_parts<<<blocks_for(a.channels), kThreads, 0, stream>>>(a);
  return cudaGetLastError();
}

}  // namespace phub::kernels::cuda
