// What a worker adds to parameters that others read and write meanwhile, without a lock.
//
// Hogwild (Niu, Recht, Re and Wright, 2011, arXiv 1106.5730): each element is read, changed and
// written by relaxed atomics, so of two that change it at a time one may be lost, and none is torn.
// Any thread, any process that maps the memory.
#pragma once

#include <atomic>
#include <cstddef>
#include <span>

namespace phub::kernels {

// `shared` is fp32, aligned as floats are.
template <typename Change>
void change_shared(std::span<float> shared, const float* own, Change change) {
  for (std::size_t i = 0; i < shared.size(); ++i) {
    const std::atomic_ref<float> element(shared[i]);
    element.store(change(element.load(std::memory_order_relaxed), own[i]),
                  std::memory_order_relaxed);
  }
}

struct HogwildStep {
  float rate = 0.0F;
  float gradient_scale = 1.0F;
  float weight_decay = 0.0F;
};

// Rule sgd: w <- w - rate * (gradient_scale * g + weight_decay * w).
inline void hogwild_sgd(std::span<float> shared, const float* gradient, const HogwildStep& step) {
  change_shared(shared, gradient, [&](float w, float g) {
    return w - step.rate * (step.gradient_scale * g + step.weight_decay * w);
  });
}

// Rule elastic of one push: W <- W + elasticity * (W_i - W).
inline void hogwild_elastic(std::span<float> shared, const float* own, float elasticity) {
  change_shared(shared, own, [&](float w, float wi) { return w + elasticity * (wi - w); });
}

}  // namespace phub::kernels
