#include "kernels/cuda/elements.cuh"
#include "kernels/cuda/network_kernels.h"

namespace phub::kernels::cuda {
namespace {

constexpr int kLanes = 8;  // threads side by side: 8 channels each, so 128 bytes of 16-bit rows
constexpr int kRows = 32;  // threads one above the other

struct Rows {
  const void* values;
  float* part_sums;  // [kSums][parts][channels]
  std::int64_t rows, channels, parts;
};

// A block sums 64 channels of one part of the rows; with kSums = 2 their squares too.
template <typename T, int kSums>
__global__ void sum_parts(Rows a) {
  __shared__ float sums[kSums][kRows][kLanes * 8];
  const std::int64_t group = blockIdx.x * kLanes + threadIdx.x;
  const std::int64_t groups = a.channels / 8;
  const std::int64_t part_rows = (a.rows + a.parts - 1) / a.parts;
  const std::int64_t first = blockIdx.y * part_rows;
  const std::int64_t end = first + part_rows < a.rows ? first + part_rows : a.rows;
  float own[kSums][8] = {};
  if (group < groups) {
    const auto* __restrict__ values = static_cast<const Eight<T>*>(a.values);
#pragma unroll 4
    for (std::int64_t row = first + threadIdx.y; row < end; row += kRows) {
      const Eight<T> eight = values[row * groups + group];
#pragma unroll
      for (int j = 0; j < 8; ++j) {
        const float value = to_float(eight.values[j]);
        own[0][j] += value;
        if constexpr (kSums == 2) own[1][j] += value * value;
      }
    }
  }
#pragma unroll
  for (int which = 0; which < kSums; ++which) {
#pragma unroll
    for (int j = 0; j < 8; ++j) sums[which][threadIdx.y][threadIdx.x * 8 + j] = own[which][j];
  }
  __syncthreads();
  const int lane = threadIdx.y * kLanes + threadIdx.x;
  const std::int64_t channel = static_cast<std::int64_t>(blockIdx.x) * kLanes * 8 + lane;
  if (lane >= kLanes * 8 || channel >= a.channels) return;
#pragma unroll
  for (int which = 0; which < kSums; ++which) {
    float sum = 0.0F;
    for (int row = 0; row < kRows; ++row) sum += sums[which][row][lane];
    a.part_sums[(which * a.parts + blockIdx.y) * a.channels + channel] = sum;
  }
}

__global__ void add_parts(const float* part_sums, float* total, std::int64_t parts,
                          std::int64_t channels) {
  for (std::int64_t c = first_index(); c < channels; c += index_stride()) {
    float sum = 0.0F;
    for (std::int64_t part = 0; part < parts; ++part) sum += part_sums[part * channels + c];
    total[c] = sum;
  }
}

template <int kSums>
cudaError_t queue_parts(DataType type, const Rows& rows, cudaStream_t stream) {
  if (rows.channels % 8 != 0) return cudaErrorInvalidValue;
  const dim3 threads(kLanes, kRows);
  const dim3 blocks(static_cast<unsigned>((rows.channels + kLanes * 8 - 1) / (kLanes * 8)),
                    static_cast<unsigned>(rows.parts));
  return with_type(type, [&](auto element) {
    sum_parts<decltype(element), kSums><<<blocks, threads, 0, stream>>>(rows);
  });
}

}  // namespace

cudaError_t run(const BiasGradient& a, cudaStream_t stream) {
  const cudaError_t queued =
      queue_parts<1>(a.type, {a.dy, a.part_sums, a.rows, a.channels, a.parts}, stream);
  if (queued != cudaSuccess) return queued;
  add_parts<<<blocks_for(a.channels), kThreads, 0, stream>>>(a.part_sums, a.gradient, a.parts,
                                                             a.channels);
  return cudaGetLastError();
}

cudaError_t run(const ChannelStatistics& a, cudaStream_t stream) {
  const cudaError_t queued =
      queue_parts<2>(a.type, {a.x, a.part_sums, a.rows, a.channels, a.parts}, stream);
  if (queued != cudaSuccess) return queued;
  const float* const squares = a.part_sums + a.parts * a.channels;
  add_parts<<<blocks_for(a.channels), kThreads, 0, stream>>>(a.part_sums, a.sum, a.parts,
                                                             a.channels);
  add_parts<<<blocks_for(a.channels), kThreads, 0, stream>>>(squares, a.sum_of_squares, a.parts,
                                                             a.channels);
  return cudaGetLastError();
}

}  // namespace phub::kernels::cuda
