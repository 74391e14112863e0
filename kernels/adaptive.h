// What rules adam, adamw, lamb and adagrad do in one update of an element: pure arithmetic, any
// thread.
//
// Powers are products, so that all machines get the same bits: libraries differ in pow.
#pragma once

#include <cmath>
#include <cstdint>

#include "common/base/rule.h"

namespace phub::kernels {

// The factors of an update, each found in double and rounded once.
struct AdaptiveStep {
  float keep_mean = 0.0F;    // beta1
  float add_mean = 0.0F;     // 1 - beta1
  float keep_square = 0.0F;  // beta2
  float add_square = 0.0F;   // 1 - beta2
  float rate = 0.0F;         // learning rate / (1 - beta1^t); of lamb 1 / (1 - beta1^t)
  float root_scale = 1.0F;   // 1 / sqrt(1 - beta2^t)
  float epsilon = 0.0F;
};

// base^exponent by squaring.
inline double power(double base, std::uint64_t exponent) {
  double result = 1.0;
  for (; exponent > 0; exponent /= 2, base *= base) {
    if (exponent % 2 == 1) result *= base;
  }
  return result;
}

// Of the update that has `before` updates behind it. REQUIRES: an adaptive rule; options.epsilon
// is what holds.
inline AdaptiveStep adaptive_step(RuleKind rule, const AdaptiveOptions& options,
                                  float learning_rate, std::uint64_t before) {
  AdaptiveStep step{.rate = learning_rate, .epsilon = static_cast<float>(options.epsilon)};
  if (!has_betas(rule)) return step;
  step.keep_mean = static_cast<float>(options.beta1);
  step.add_mean = static_cast<float>(1.0 - options.beta1);
  step.keep_square = static_cast<float>(options.beta2);
  step.add_square = static_cast<float>(1.0 - options.beta2);
  const std::uint64_t update = before + 1;
  const double whole = rule == RuleKind::kLamb ? 1.0 : static_cast<double>(learning_rate);
  const double rate = whole / (1.0 - power(options.beta1, update));
  step.rate = static_cast<float>(rate);
  step.root_scale = static_cast<float>(1.0 / std::sqrt(1.0 - power(options.beta2, update)));
  return step;
}

// What adamw's weight decay leaves of a parameter.
inline float decoupled_decay(float learning_rate, float weight_decay) {
  return static_cast<float>(1.0 -
                            static_cast<double>(learning_rate) * static_cast<double>(weight_decay));
}

}  // namespace phub::kernels
