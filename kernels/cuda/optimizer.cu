#include "kernels/cuda/reduce.cuh"
#include "kernels/cuda/training_kernels.h"

namespace phub::kernels::cuda {
namespace {

__device__ float gradient_at(const OptimizerStep& a, const OptimizedTensor& t, std::int64_t i) {
  return load(t.gradient, t.gradient_type, i) * a.gradient_scale;
}

// Squares of one chunk, summed in a fixed order.
__global__ void chunk_squares(OptimizerStep a) {
  __shared__ double room[kThreads];
  const TensorChunk chunk = a.chunks[blockIdx.x];
  const OptimizedTensor t = a.tensors[chunk.tensor];
  double weights = 0.0, gradients = 0.0;
  const std::int64_t first = chunk.chunk * kChunkElements;
  for (std::int64_t j = threadIdx.x; j < kChunkElements && first + j < t.elements; j += kThreads) {
    const double weight = t.weights[first + j], gradient = gradient_at(a, t, first + j);
    weights += weight * weight;
    gradients += gradient * gradient;
  }
  const auto add = [](double x, double y) { return x + y; };
  weights = block_reduce(weights, room, add);
  gradients = block_reduce(gradients, room, add);
  if (threadIdx.x == 0) {
    a.chunk_squares[blockIdx.x] = weights;
    a.chunk_squares[a.chunk_count + blockIdx.x] = gradients;
  }
}

// One block for each tensor; its chunks are summed in a fixed order.
__global__ void find_trust(OptimizerStep a) {
  __shared__ double room[kThreads];
  double weights = 0.0, gradients = 0.0;
  for (std::int64_t i = threadIdx.x; i < a.chunk_count; i += kThreads) {
    if (a.chunks[i].tensor != blockIdx.x) continue;
    weights += a.chunk_squares[i];
    gradients += a.chunk_squares[a.chunk_count + i];
  }
  const auto add = [](double x, double y) { return x + y; };
  const double weight = sqrt(block_reduce(weights, room, add));
  const double gradient = sqrt(block_reduce(gradients, room, add));
  if (threadIdx.x != 0) return;
  const bool plain = !a.tensors[blockIdx.x].decays || weight == 0.0 || gradient == 0.0;
  const double denominator = gradient + a.weight_decay * weight + a.lars_epsilon;
  a.trust[blockIdx.x] =
      plain ? 1.0F : static_cast<float>(a.lars_coefficient * weight / denominator);
}

__global__ void optimize(OptimizerStep a) {
  if (*a.skip != 0) return;
  const TensorChunk chunk = a.chunks[blockIdx.x];
  const OptimizedTensor t = a.tensors[chunk.tensor];
  const bool lars = a.rule == LocalRule::kLars;
  const float rate = lars ? a.learning_rate * a.trust[chunk.tensor] : 1.0F;
  const std::int64_t first = chunk.chunk * kChunkElements;
  for (std::int64_t j = threadIdx.x; j < kChunkElements && first + j < t.elements; j += kThreads) {
    const std::int64_t i = first + j;
    const float gradient = gradient_at(a, t, i);
    const float decayed = t.decays ? gradient + a.weight_decay * t.weights[i] : gradient;
    const float velocity = a.momentum * t.velocity[i] + rate * decayed;
    t.velocity[i] = velocity;
    const float direction =
        a.rule == LocalRule::kNesterov ? decayed + a.momentum * velocity : velocity;
    t.weights[i] -= lars ? direction : a.learning_rate * direction;
  }
}

}  // namespace

cudaError_t run(const OptimizerStep& a, cudaStream_t stream) {
  if (a.chunk_count == 0) return cudaSuccess;
  const auto chunks = static_cast<unsigned>(a.chunk_count);
  if (a.rule == LocalRule::kLars) {
    chunk_squares<<<chunks, kThreads, 0, stream>>>(a);
    find_trust<<<static_cast<unsigned>(a.tensor_count), kThreads, 0, stream>>>(a);
  }
  optimize<<<chunks, kThreads, 0, stream>>>(a);
  return cudaGetLastError();
}

}  // namespace phub::kernels::cuda
