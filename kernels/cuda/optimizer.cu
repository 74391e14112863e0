#include "kernels/cuda/reduce.cuh"
#include "kernels/cuda/training_kernels.h"

namespace phub::kernels::cuda {
namespace {

__device__ float gradient_at(const OptimizerStep& a, const OptimizedTensor& t, std::int64_t i) {
  return load(t.gradient, t.gradient_type, i) * a.gradient_scale;
}

// Squares of one chunk's weights and of change_at(tensor, element), which is called once for each of
// its elements, summed in a fixed order.
template <typename ChangeAt>
__device__ void sum_squares_of_chunk(const OptimizerStep& a, ChangeAt change_at) {
  __shared__ double room[kThreads];
  const TensorChunk chunk = a.chunks[blockIdx.x];
  const OptimizedTensor t = a.tensors[chunk.tensor];
  double weights = 0.0, changes = 0.0;
  const std::int64_t first = chunk.chunk * kChunkElements;
  for (std::int64_t j = threadIdx.x; j < kChunkElements && first + j < t.elements; j += kThreads) {
    const double change = change_at(t, first + j), weight = t.weights[first + j];
    weights += weight * weight;
    changes += change * change;
  }
  const auto add = [](double x, double y) { return x + y; };
  weights = block_reduce(weights, room, add);
  changes = block_reduce(changes, room, add);
  if (threadIdx.x == 0) {
    a.chunk_squares[blockIdx.x] = weights;
    a.chunk_squares[a.chunk_count + blockIdx.x] = changes;
  }
}

__global__ void chunk_squares(OptimizerStep a) {
  sum_squares_of_chunk(
      a, [&](const OptimizedTensor& t, std::int64_t i) { return gradient_at(a, t, i); });
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
  const double gradient = sqrt(block_reduce(gradients, room, add));  // kLamb: direction
  if (threadIdx.x != 0) return;
  const bool lamb = a.rule == LocalRule::kLamb;
  const bool plain = !a.tensors[blockIdx.x].decays || weight == 0.0 || gradient == 0.0;
  const double denominator = lamb ? gradient : gradient + a.weight_decay * weight + a.lars_epsilon;
  const double share = lamb ? weight : a.lars_coefficient * weight;
  a.trust[blockIdx.x] = plain ? 1.0F : static_cast<float>(share / denominator);
}

// As kernels/adaptive.h finds them; one thread. Products and differences are not fused there.
__device__ double power(double base, std::int64_t exponent) {
  double result = 1.0;
  for (; exponent > 0; exponent /= 2, base = __dmul_rn(base, base)) {
    if (exponent % 2 == 1) result = __dmul_rn(result, base);
  }
  return result;
}

__global__ void find_factors(OptimizerStep a) {
  if (*a.skip != 0) return;
  const std::int64_t update = ++*a.updates;
  const double rate = a.rule == LocalRule::kLamb ? 1.0 : static_cast<double>(a.learning_rate);
  AdaptiveStep step;
  step.rate = static_cast<float>(rate);
  step.epsilon = static_cast<float>(a.adaptive.epsilon);
  if (a.rule != LocalRule::kAdagrad) {
    const double beta1 = a.adaptive.beta1, beta2 = a.adaptive.beta2;
    step.keep_mean = static_cast<float>(beta1);
    step.add_mean = static_cast<float>(1.0 - beta1);
    step.keep_square = static_cast<float>(beta2);
    step.add_square = static_cast<float>(1.0 - beta2);
    step.rate = static_cast<float>(rate / __dsub_rn(1.0, power(beta1, update)));
    step.root_scale = static_cast<float>(1.0 / sqrt(__dsub_rn(1.0, power(beta2, update))));
  }
  *a.factors = step;
}

__device__ void add_to_means(const AdaptiveStep& k, const OptimizedTensor& t, std::int64_t i,
                             float gradient) {
  t.velocity[i] = k.keep_mean * t.velocity[i] + k.add_mean * gradient;
  t.squares[i] = k.keep_square * t.squares[i] + k.add_square * (gradient * gradient);
}

__device__ float adam_change(const AdaptiveStep& k, const OptimizedTensor& t, std::int64_t i) {
  return k.rate * (t.velocity[i] / (sqrtf(t.squares[i]) * k.root_scale + k.epsilon));
}

__device__ float lamb_direction(const OptimizerStep& a, const AdaptiveStep& k,
                                const OptimizedTensor& t, std::int64_t i) {
  const float decay = t.decays ? a.weight_decay * t.weights[i] : 0.0F;
  return adam_change(k, t, i) + decay;
}

// The first pass of lamb: means, and the squares of one chunk's weights and directions. The second
// makes directions again, out of what it reads anyway: to keep them costs a write and a read more.
__global__ void find_directions(OptimizerStep a) {
  if (*a.skip != 0) return;
  const AdaptiveStep k = *a.factors;
  sum_squares_of_chunk(a, [&](const OptimizedTensor& t, std::int64_t i) {
    add_to_means(k, t, i, gradient_at(a, t, i));
    return lamb_direction(a, k, t, i);
  });
}

__device__ float adaptive_change(const OptimizerStep& a, const AdaptiveStep& k,
                                 const OptimizedTensor& t, std::int64_t i) {
  const float gradient = gradient_at(a, t, i);
  if (a.rule == LocalRule::kAdamW) {
    add_to_means(k, t, i, gradient);
    return adam_change(k, t, i);
  }
  const float decayed = t.decays ? gradient + a.weight_decay * t.weights[i] : gradient;
  if (a.rule == LocalRule::kAdam) {
    add_to_means(k, t, i, decayed);
    return adam_change(k, t, i);
  }
  t.velocity[i] += decayed * decayed;
  return k.rate * (decayed / (sqrtf(t.velocity[i]) + k.epsilon));
}

__global__ void optimize_adaptive(OptimizerStep a) {
  if (*a.skip != 0) return;
  const TensorChunk chunk = a.chunks[blockIdx.x];
  const OptimizedTensor t = a.tensors[chunk.tensor];
  const AdaptiveStep k = *a.factors;
  const bool lamb = a.rule == LocalRule::kLamb;
  const float rate = lamb ? a.learning_rate * a.trust[chunk.tensor] : 0.0F;
  const bool shrinks = a.rule == LocalRule::kAdamW && t.decays;
  const float kept =
      shrinks ? static_cast<float>(1.0 - static_cast<double>(a.learning_rate) * a.weight_decay)
              : 1.0F;
  const std::int64_t first = chunk.chunk * kChunkElements;
  for (std::int64_t j = threadIdx.x; j < kChunkElements && first + j < t.elements; j += kThreads) {
    const std::int64_t i = first + j;
    const float change = lamb ? rate * lamb_direction(a, k, t, i) : adaptive_change(a, k, t, i);
    t.weights[i] = t.weights[i] * kept - change;
  }
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
  if (is_adaptive(a.rule)) {
    find_factors<<<1, 1, 0, stream>>>(a);
    if (a.rule == LocalRule::kLamb) {
      find_directions<<<chunks, kThreads, 0, stream>>>(a);
      find_trust<<<static_cast<unsigned>(a.tensor_count), kThreads, 0, stream>>>(a);
    }
    optimize_adaptive<<<chunks, kThreads, 0, stream>>>(a);
    return cudaGetLastError();
  }
  if (a.rule == LocalRule::kLars) {
    chunk_squares<<<chunks, kThreads, 0, stream>>>(a);
    find_trust<<<static_cast<unsigned>(a.tensor_count), kThreads, 0, stream>>>(a);
  }
  optimize<<<chunks, kThreads, 0, stream>>>(a);
  return cudaGetLastError();
}

}  // namespace phub::kernels::cuda
