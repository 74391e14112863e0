#include "kernels/cuda/elements.cuh"
#include "kernels/cuda/network_kernels.h"
#include "kernels/cuda/pool_eights.h"

namespace phub::kernels::cuda {
namespace {

// Eight elements of T in accesses of 16 bytes; what is read is written by no kernel meanwhile.
template <typename T>
struct PoolMemory {
  __device__ void load(const void* array, std::int64_t index, float* values) const {
    load_as(static_cast<const T*>(array) + index, values);
  }
  __device__ void load_vector(const float* from, float* values) const { load_as(from, values); }
  __device__ void store(void* array, std::int64_t index, const float* values) const {
    Eight<T> eight;
#pragma unroll
    for (int j = 0; j < kEight; ++j) eight.values[j] = from_float<T>(values[j]);
    *reinterpret_cast<Eight<T>*>(static_cast<T*>(array) + index) = eight;
  }
  __device__ void load_index(const std::int8_t* from, std::int8_t* index) const {
    const uint2 raw = __ldg(reinterpret_cast<const uint2*>(from));
#pragma unroll
    for (int j = 0; j < kEight; ++j) {
      index[j] = static_cast<std::int8_t>((j < 4 ? raw.x : raw.y) >> (j % 4 * 8));
    }
  }
  __device__ void store_index(std::int8_t* to, const std::int8_t* index) const {
    uint2 raw = {0, 0};
#pragma unroll
    for (int j = 0; j < kEight; ++j) {
      const auto byte = static_cast<unsigned>(static_cast<std::uint8_t>(index[j])) << (j % 4 * 8);
      if (j < 4) raw.x |= byte;
      if (j >= 4) raw.y |= byte;
    }
    *reinterpret_cast<uint2*>(to) = raw;
  }

 private:
  template <typename Element>
  __device__ static void load_as(const Element* from, float* values) {
    constexpr int kVectors = sizeof(Eight<Element>) / sizeof(uint4);
    Eight<Element> eight;
#pragma unroll
    for (int i = 0; i < kVectors; ++i) {
      reinterpret_cast<uint4*>(&eight)[i] = __ldg(reinterpret_cast<const uint4*>(from) + i);
    }
#pragma unroll
    for (int j = 0; j < kEight; ++j) values[j] = to_float(eight.values[j]);
  }
};

template <typename T>
__global__ void __launch_bounds__(kThreads) scaled_pool(ScaledPool a, std::int32_t places) {
  const auto i = static_cast<std::int32_t>(blockIdx.x * kThreads + threadIdx.x);
  if (i >= places) return;
  const PoolImages images = {static_cast<std::int32_t>(blockIdx.y),
                             static_cast<std::int32_t>(gridDim.y)};
  pool_eight(a, pool_place(i, a.shape.pooled_width, a.shape.channels), images, PoolMemory<T>{});
}

template <typename T>
__global__ void __launch_bounds__(kThreads)
    scaled_pool_backward(ScaledPoolBackward a, std::int32_t places) {
  const auto i = static_cast<std::int32_t>(blockIdx.x * kThreads + threadIdx.x);
  if (i >= places) return;
  const PoolImages images = {static_cast<std::int32_t>(blockIdx.y),
                             static_cast<std::int32_t>(gridDim.y)};
  spread_eight(a, pool_place(i, a.shape.width, a.shape.channels), images, PoolMemory<T>{});
}

constexpr int kSumLanes = 8;  // threads side by side, of eight channels each
constexpr int kSumRows = 32;  // threads one above the other

// A block sums 64 channels of one part of the rows.
template <typename T>
__global__ void __launch_bounds__(kSumLanes* kSumRows) scaled_pool_sums(ScaledPoolSums a) {
  __shared__ float sums[2][kSumRows][kSumLanes * kEight];
  const std::int64_t first_channel = std::int64_t{blockIdx.x} * kSumLanes * kEight;
  const std::int64_t channel = first_channel + threadIdx.x * kEight;
  const PoolRows rows = rows_of(a, blockIdx.y);
  PoolSums own = {};
  if (channel < a.channels) {
    own = sum_eight(a, channel, rows.first + threadIdx.y, rows.end, kSumRows, PoolMemory<T>{});
  }
#pragma unroll
  for (int j = 0; j < kEight; ++j) {
    sums[0][threadIdx.y][threadIdx.x * kEight + j] = own.gradients[j];
    sums[1][threadIdx.y][threadIdx.x * kEight + j] = own.products[j];
  }
  __syncthreads();
  const int lane = threadIdx.y * kSumLanes + threadIdx.x;
  const int which = lane / (kSumLanes * kEight), c = lane % (kSumLanes * kEight);
  if (which >= 2 || first_channel + c >= a.channels) return;
  float sum = 0.0F;
  for (int row = 0; row < kSumRows; ++row) sum += sums[which][row][c];
  a.part_sums[(which * a.parts + blockIdx.y) * a.channels + first_channel + c] = sum;
}

// A block adds the parts of eight channels.
__global__ void __launch_bounds__(kEight* kSumRows) scaled_pool_finish(ScaledPoolSums a) {
  __shared__ float sums[2][kSumRows][kEight];
  const std::int64_t channel = std::int64_t{blockIdx.x} * kEight + threadIdx.x;
  float gradients = 0.0F, products = 0.0F;
  for (std::int64_t part = threadIdx.y; part < a.parts; part += kSumRows) {
    gradients += a.part_sums[part * a.channels + channel];
    products += a.part_sums[(a.parts + part) * a.channels + channel];
  }
  sums[0][threadIdx.y][threadIdx.x] = gradients;
  sums[1][threadIdx.y][threadIdx.x] = products;
  __syncthreads();
  if (threadIdx.y > 0) return;
  for (int row = 1; row < kSumRows; ++row) {
    gradients += sums[0][row][threadIdx.x];
    products += sums[1][row][threadIdx.x];
  }
  finish_sums(a, channel, gradients, products);
}

bool is_eights(const PoolShape& shape) { return shape.channels % kEight == 0; }

// Blocks over the places of an image and, so that there are enough of them, over images.
dim3 grid_of(std::int32_t places, std::int32_t images) {
  const std::int64_t across = (places + kThreads - 1) / kThreads;
  const std::int64_t lanes = std::clamp<std::int64_t>(kBlocksMax / across, 1, images);
  return {static_cast<unsigned>(across), static_cast<unsigned>(lanes)};
}

}  // namespace

cudaError_t run(const ScaledPool& a, cudaStream_t stream) {
  if (!is_eights(a.shape)) return cudaErrorInvalidValue;
  const PoolShape& s = a.shape;
  const std::int32_t places = s.pooled_height * s.pooled_width * (s.channels / kEight);
  return with_type(a.type, [&](auto element) {
    scaled_pool<decltype(element)><<<grid_of(places, s.images), kThreads, 0, stream>>>(a, places);
  });
}

cudaError_t run(const ScaledPoolSums& a, cudaStream_t stream) {
  if (a.channels % kEight != 0) return cudaErrorInvalidValue;
  constexpr std::int64_t kAcross = kSumLanes * kEight;
  const dim3 blocks(static_cast<unsigned>((a.channels + kAcross - 1) / kAcross),
                    static_cast<unsigned>(a.parts));
  const cudaError_t queued = with_type(a.type, [&](auto element) {
    scaled_pool_sums<decltype(element)><<<blocks, dim3(kSumLanes, kSumRows), 0, stream>>>(a);
  });
  if (queued != cudaSuccess) return queued;
  scaled_pool_finish<<<static_cast<unsigned>(a.channels / kEight), dim3(kEight, kSumRows), 0,
                       stream>>>(a);
  return cudaGetLastError();
}

cudaError_t run(const ScaledPoolBackward& a, cudaStream_t stream) {
  if (!is_eights(a.shape)) return cudaErrorInvalidValue;
  const PoolShape& s = a.shape;
  const std::int32_t places = s.height * s.width * (s.channels / kEight);
  return with_type(a.type, [&](auto element) {
    scaled_pool_backward<decltype(element)>
        <<<grid_of(places, s.images), kThreads, 0, stream>>>(a, places);
  });
}

}  // namespace phub::kernels::cuda
