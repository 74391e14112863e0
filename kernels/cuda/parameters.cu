#include "kernels/cuda/elements.cuh"
#include "kernels/cuda/parameter_eights.h"
#include "kernels/cuda/training_kernels.h"

namespace phub::kernels::cuda {
namespace {

struct ParameterMemory {
  __device__ float load(const void* array, DataType type, std::int64_t index) const {
    return cuda::load(array, type, index);
  }
  __device__ void store(void* array, DataType type, std::int64_t index, float value) const {
    cuda::store(array, type, index, value);
  }
  __device__ void load_eight(const void* array, DataType type, std::int64_t index,
                             float* values) const {
    switch (type) {
      case DataType::kFloat16:
        return load_as<__half>(array, index, values);
      case DataType::kBfloat16:
        return load_as<__nv_bfloat16>(array, index, values);
      case DataType::kFloat32:
        break;
    }
    load_as<float>(array, index, values);
  }
  __device__ void store_eight(void* array, DataType type, std::int64_t index,
                              const float* values) const {
    switch (type) {
      case DataType::kFloat16:
        return store_as<__half>(array, index, values);
      case DataType::kBfloat16:
        return store_as<__nv_bfloat16>(array, index, values);
      case DataType::kFloat32:
        break;
    }
    store_as<float>(array, index, values);
  }
  __device__ bool is_finite_as(DataType type, float value) const {
    switch (type) {
      case DataType::kFloat16:
        return isfinite(to_float(from_float<__half>(value)));
      case DataType::kBfloat16:
        return isfinite(to_float(from_float<__nv_bfloat16>(value)));
      case DataType::kFloat32:
        break;
    }
    return isfinite(value);
  }

 private:
  template <typename T>
  __device__ static void load_as(const void* array, std::int64_t index, float* values) {
    const Eight<T> eight = *reinterpret_cast<const Eight<T>*>(static_cast<const T*>(array) + index);
#pragma unroll
    for (int j = 0; j < kEight; ++j) values[j] = to_float(eight.values[j]);
  }
  template <typename T>
  __device__ static void store_as(void* array, std::int64_t index, const float* values) {
    Eight<T> eight;
#pragma unroll
    for (int j = 0; j < kEight; ++j) eight.values[j] = from_float<T>(values[j]);
    *reinterpret_cast<Eight<T>*>(static_cast<T*>(array) + index) = eight;
  }
};

__global__ void load_parameters(LoadParameters a) {
  const TensorChunk chunk = a.chunks[blockIdx.x];
  const ParameterTensor t = a.tensors[chunk.tensor];
  const std::int64_t elements = t.padded_k * t.pixels * t.padded_c;
  const std::int64_t first = chunk.chunk * kChunkElements;
  for (std::int64_t j = kEight * threadIdx.x; j < kChunkElements && first + j < elements;
       j += kEight * blockDim.x) {
    load_eight(t, first + j, ParameterMemory{});
  }
}

__global__ void publish_gradients(PublishGradients a) {
  const TensorChunk chunk = a.chunks[blockIdx.x];
  const ParameterTensor t = a.tensors[chunk.tensor];
  const std::int64_t elements = t.k * t.c * t.pixels;
  const std::int64_t first = chunk.chunk * kChunkElements;
  bool finite = true;
  for (std::int64_t j = kEight * threadIdx.x; j < kChunkElements && first + j < elements;
       j += kEight * blockDim.x) {
    finite = publish_eight(t, first + j, a.scale, ParameterMemory{}) && finite;
  }
  if (!finite) *a.not_finite = 1;  // all who write it write the same
}

}  // namespace

cudaError_t run(const LoadParameters& a, cudaStream_t stream) {
  if (a.chunk_count == 0) return cudaSuccess;
  load_parameters<<<static_cast<unsigned>(a.chunk_count), kThreads, 0, stream>>>(a);
  return cudaGetLastError();
}

cudaError_t run(const PublishGradients& a, cudaStream_t stream) {
  if (a.chunk_count == 0) return cudaSuccess;
  publish_gradients<<<static_cast<unsigned>(a.chunk_count), kThreads, 0, stream>>>(a);
  return cudaGetLastError();
}

}  // namespace phub::kernels::cuda
