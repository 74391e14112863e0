#include <cstdint>

#include "kernels/cuda/reduce.cuh"
#include "kernels/cuda/training_kernels.h"

namespace phub::kernels::cuda {
namespace {

struct Largest {
  float value;
  int where;
};

// One block for each image; logits are read three times, from the caches after the first.
template <typename T>
__global__ void softmax_loss(SoftmaxLoss a) {
  __shared__ Largest largest_room[kThreads];
  __shared__ float room[kThreads];
  const std::int64_t image = blockIdx.x;
  const T* logits = static_cast<const T*>(a.logits) + image * a.padded_classes;
  const int classes = static_cast<int>(a.classes);

  Largest own{-INFINITY, classes};
  for (int c = threadIdx.x; c < classes; c += kThreads) {
    const float logit = to_float(logits[c]);
    if (logit > own.value || own.where == classes) own = {logit, c};
  }
  const Largest largest = block_reduce(own, largest_room, [](Largest x, Largest y) {
    const bool second = y.value > x.value || (y.value == x.value && y.where < x.where);
    return second ? y : x;
  });

  float exponentials = 0.0F;
  for (int c = threadIdx.x; c < classes; c += kThreads) {
    exponentials += expf(to_float(logits[c]) - largest.value);
  }
  const auto add = [](float x, float y) { return x + y; };
  const float log_sum = logf(block_reduce(exponentials, room, add));

  const int label = a.labels[image];
  const bool is_mixed = a.second_labels != nullptr;
  const int second = is_mixed ? a.second_labels[image] : label;
  const float first_share = is_mixed ? a.label_shares[image] : 1.0F;
  const float of_first = (1.0F - a.smoothing) * first_share;
  const float of_second = (1.0F - a.smoothing) * (1.0F - first_share);
  const float share = a.smoothing / static_cast<float>(a.classes);
  float loss = 0.0F;
  for (int c = threadIdx.x; c < static_cast<int>(a.padded_classes); c += kThreads) {
    const bool real = c < classes;
    const float log_softmax = real ? to_float(logits[c]) - largest.value - log_sum : 0.0F;
    const float target = share + (c == label ? of_first : 0.0F) + (c == second ? of_second : 0.0F);
    if (real) loss -= target * log_softmax;
    if (a.gradient == nullptr) continue;
    const float gradient = real ? (expf(log_softmax) - target) * a.scale : 0.0F;
    static_cast<T*>(a.gradient)[image * a.padded_classes + c] = from_float<T>(gradient);
  }
  const float total = block_reduce(loss, room, add);
  if (threadIdx.x == 0) {
    a.loss[image] = total;
    a.correct[image] = largest.where == label ? 1 : 0;
  }
}

}  // namespace

cudaError_t run(const SoftmaxLoss& a, cudaStream_t stream) {
  if (a.images == 0) return cudaSuccess;
  return with_type(a.type, [&](auto element) {
    softmax_loss<decltype(element)><<<static_cast<unsigned>(a.images), kThreads, 0, stream>>>(a);
  });
}

}  // namespace phub::kernels::cuda
