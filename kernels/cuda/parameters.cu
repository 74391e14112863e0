#include "kernels/cuda/elements.cuh"
#include "kernels/cuda/training_kernels.h"

namespace phub::kernels::cuda {
namespace {

__global__ void load_parameters(LoadParameters a) {
  const TensorChunk chunk = a.chunks[blockIdx.x];
  const ParameterTensor t = a.tensors[chunk.tensor];
  const std::int64_t elements = t.padded_k * t.pixels * t.padded_c;
  const std::int64_t first = chunk.chunk * kChunkElements;
  for (std::int64_t j = threadIdx.x; j < kChunkElements; j += blockDim.x) {
    const std::int64_t i = first + j;
    if (i >= elements) return;
    const std::int64_t c = i % t.padded_c;
    const std::int64_t pixel = i / t.padded_c % t.pixels;
    const std::int64_t k = i / t.padded_c / t.pixels;
    const bool there = k < t.k && c < t.c;
    store(t.padded, t.padded_type, i,
          there ? load(t.plain, t.plain_type, (k * t.c + c) * t.pixels + pixel) : 0.0F);
  }
}

__global__ void publish_gradients(PublishGradients a) {
  const TensorChunk chunk = a.chunks[blockIdx.x];
  const ParameterTensor t = a.tensors[chunk.tensor];
  const std::int64_t elements = t.k * t.c * t.pixels;
  const std::int64_t first = chunk.chunk * kChunkElements;
  bool not_finite = false;
  for (std::int64_t j = threadIdx.x; j < kChunkElements && first + j < elements; j += blockDim.x) {
    const std::int64_t i = first + j;
    const std::int64_t pixel = i % t.pixels;
    const std::int64_t c = i / t.pixels % t.c;
    const std::int64_t k = i / t.pixels / t.c;
    const float padded = load(t.padded, t.padded_type, (k * t.pixels + pixel) * t.padded_c + c);
    store(t.plain, t.plain_type, i, padded * a.scale);
    not_finite |= !isfinite(load(t.plain, t.plain_type, i));
  }
  if (not_finite) *a.not_finite = 1;  // all who write it write the same
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
