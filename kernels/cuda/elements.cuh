// Elements of 16 and 32 bits in device code, one and eight at a time.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

#include "common/base/dtype.h"

namespace phub::kernels::cuda {

__device__ inline float to_float(float value) { return value; }
__device__ inline float to_float(__half value) { return __half2float(value); }
__device__ inline float to_float(__nv_bfloat16 value) { return __bfloat162float(value); }

template <typename T>
__device__ T from_float(float value);
template <>
__device__ inline float from_float<float>(float value) {
  return value;
}
template <>
__device__ inline __half from_float<__half>(float value) {
  return __float2half_rn(value);
}
template <>
__device__ inline __nv_bfloat16 from_float<__nv_bfloat16>(float value) {
  return __float2bfloat16_rn(value);
}

// Eight neighbours, moved in accesses of 16 bytes. Aligned to that.
template <typename T>
struct alignas(16) Eight {
  T values[8];
};

// For arrays whose type is known at run time only.
__device__ inline float load(const void* array, DataType type, std::int64_t index) {
  switch (type) {
    case DataType::kFloat16:
      return to_float(static_cast<const __half*>(array)[index]);
    case DataType::kBfloat16:
      return to_float(static_cast<const __nv_bfloat16*>(array)[index]);
    case DataType::kFloat32:
      break;
  }
  return static_cast<const float*>(array)[index];
}

__device__ inline void store(void* array, DataType type, std::int64_t index, float value) {
  switch (type) {
    case DataType::kFloat16:
      static_cast<__half*>(array)[index] = from_float<__half>(value);
      return;
    case DataType::kBfloat16:
      static_cast<__nv_bfloat16*>(array)[index] = from_float<__nv_bfloat16>(value);
      return;
    case DataType::kFloat32:
      break;
  }
  static_cast<float*>(array)[index] = value;
}

// Calls launch(T{}) with the element type's T; the result is the launch's.
template <typename Launch>
cudaError_t with_type(DataType type, Launch launch) {
  switch (type) {
    case DataType::kFloat16:
      launch(__half{});
      break;
    case DataType::kBfloat16:
      launch(__nv_bfloat16{});
      break;
    case DataType::kFloat32:
      launch(float{});
      break;
  }
  return cudaGetLastError();
}

inline constexpr int kThreads = 256;
// Enough blocks to fill a large device several times over; kernels stride over the rest.
inline constexpr std::int64_t kBlocksMax = 132 * 16;

inline unsigned blocks_for(std::int64_t threads) {
  const std::int64_t blocks = (threads + kThreads - 1) / kThreads;
  return static_cast<unsigned>(blocks < 1 ? 1 : blocks > kBlocksMax ? kBlocksMax : blocks);
}

__device__ inline std::int64_t first_index() {
  return static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
}
__device__ inline std::int64_t index_stride() {
  return static_cast<std::int64_t>(gridDim.x) * blockDim.x;
}

}  // namespace phub::kernels::cuda
