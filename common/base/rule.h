// Update rules: how a chunk's aggregated gradient becomes new parameters.
#pragma once

#include <cmath>
#include <cstdint>
#include <string_view>

#include "common/base/words.h"

namespace phub {

enum class RuleKind : std::uint8_t {
  kSum,       // parameters = sum of the pushes (all-reduce)
  kMean,      // parameters = sum / workers
  kSgd,       // w -= lr * (g + wd * w)
  kMomentum,  // v = mu * v + g + wd * w;  w -= lr * v
  kNesterov,  // v = mu * v + g + wd * w;  w -= lr * (g + wd * w + mu * v)
  kLars,      // v = mu * v + lr * trust * (g + wd * w);  w -= v; trust: one of each key and round
  kAdam,      // m, v: means of g + wd * w and of its square;  w -= lr * m' / (sqrt(v') + epsilon)
  kAdamW,     // m, v: of g and of its square;  w -= lr * wd * w + lr * m' / (sqrt(v') + epsilon)
  kAdagrad,   // s += (g + wd * w)^2;  w -= lr * (g + wd * w) / (sqrt(s) + epsilon)
  kLamb,      // m, v: as adamw's;  u = m' / (sqrt(v') + epsilon) + wd * w;  w -= lr * trust * u
  kElastic,   // w += lr * sum of (w_i - w), of workers' parameters w_i; lr: the elasticity
};

// Whether the rule has parameters of its own that a first round must initialise.
constexpr bool has_parameters(RuleKind kind) {
  return kind != RuleKind::kSum && kind != RuleKind::kMean;
}

// Whether its step is divided by a root of gradients' squares: see AdaptiveOptions.
constexpr bool is_adaptive(RuleKind kind) {
  return kind == RuleKind::kAdam || kind == RuleKind::kAdamW || kind == RuleKind::kAdagrad ||
         kind == RuleKind::kLamb;
}

// Whether it has AdaptiveOptions' betas.
constexpr bool has_betas(RuleKind kind) {
  return kind == RuleKind::kAdam || kind == RuleKind::kAdamW || kind == RuleKind::kLamb;
}

// Whether workers push parameters of their own, which the shared ones are pulled to, and no
// gradients: elastic averaging (Zhang, Choromanska, LeCun, 2015, arXiv 1412.6651). Of n pushes
// w += n * lr * (mean - w), and n is 1 / gradient_scale: a mean says of how many it is.
constexpr bool is_elastic(RuleKind kind) { return kind == RuleKind::kElastic; }

// What Zhang et al. use.
constexpr float default_elasticity(std::uint32_t workers) {
  return 0.9F / static_cast<float>(workers);
}

// Whether it has Hyper's momentum.
constexpr bool has_momentum(RuleKind kind) {
  return kind == RuleKind::kMomentum || kind == RuleKind::kNesterov || kind == RuleKind::kLars;
}

// fp32 state arrays per parameter beside the parameter itself.
constexpr unsigned state_arrays(RuleKind kind) {
  if (has_betas(kind)) return 2;
  const bool has_none = kind == RuleKind::kSgd || kind == RuleKind::kElastic;
  return has_parameters(kind) && !has_none ? 1 : 0;
}

// What PyTorch's optimizers call such an array. REQUIRES: array < state_arrays.
constexpr std::string_view state_name(RuleKind kind, unsigned array) {
  if (has_betas(kind)) return array == 0 ? "exp_avg" : "exp_avg_sq";
  return kind == RuleKind::kAdagrad ? "sum" : "momentum_buffer";
}

// Whether no part of a key can be updated before all of its gradient is there: then one core has
// all of its chunks.
constexpr bool needs_whole_keys(RuleKind kind) {
  return kind == RuleKind::kLars || kind == RuleKind::kLamb;
}

// Of rule lars: trust = coefficient * |w| / (|g| + wd * |w| + epsilon) with the norms of the key's
// parameters and of its averaged gradient, and 1 where a norm is 0 or the key is a plain one.
// Algorithm 1 of You, Gitman, Ginsburg, "Large batch training of convolutional networks", 2017
// (arXiv 1708.03888), where coefficient is eta and there is no epsilon.
struct LarsOptions {
  float coefficient = 0.001F;
  float epsilon = 0.0F;
  bool operator==(const LarsOptions&) const = default;
};

// Of rules adam, adamw, lamb and adagrad, which has the last alone. m = beta1 * m + (1 - beta1) *
// g, v = beta2 * v + (1 - beta2) * g^2; before update t, which counts from 1, m' = m / (1 -
// beta1^t) and v' = v / (1 - beta2^t): Kingma, Ba, "Adam", 2015 (arXiv 1412.6980), with the weight
// decay of Loshchilov, Hutter, 2019 (arXiv 1711.05101) in adamw, and Duchi, Hazan, Singer, 2011; as
// torch.optim has them, without amsgrad and lr_decay. In double, as Python's: 1 - 0.999F is off by
// 5e-5.
struct AdaptiveOptions {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 0.0;  // 0: the rule's default
  bool operator==(const AdaptiveOptions&) const = default;
};

// In fp32, where it is added, it is neither 0 nor infinite.
inline constexpr double kEpsilonMin = 1e-30;
inline constexpr double kEpsilonMax = 1e30;

// Torch.optim's; of lamb that of its authors.
constexpr double default_epsilon(RuleKind kind) {
  if (kind == RuleKind::kLamb) return 1e-6;
  return kind == RuleKind::kAdagrad ? 1e-10 : 1e-8;
}

// What a rule reads every round. Set by the job and changed by its worker 0 at any round boundary.
struct Hyper {
  float learning_rate = 0.0F;
  float momentum = 0.0F;
  float gradient_scale = 1.0F;  // multiplies the summed gradient: 1 / workers for an average
  // Of this worker's pushes that follow, where a job's rounds weigh them so (PushWeight::kSamples):
  // their images or tokens; 0: it has not said, which is 1.
  float samples = 0.0F;
};
static_assert(sizeof(Hyper) == 16, "Hyper is a wire format");

// Of Hyper's samples that are said. More would leave nothing of pushes that are weighed by 1; of
// fewer a sum and the weight that it is divided by could be lost to fp32.
inline constexpr float kSamplesMax = 1 << 24;
inline constexpr float kSamplesMin = 1.0F / kSamplesMax;
constexpr bool are_samples(float said) { return said >= kSamplesMin && said <= kSamplesMax; }

// As of a job that is made: what a peer sends may be anything.
inline bool makes_sense(const Hyper& hyper) {
  const bool is_finite = std::isfinite(hyper.learning_rate) && std::isfinite(hyper.gradient_scale);
  return is_finite && hyper.learning_rate >= 0.0F && hyper.gradient_scale >= 0.0F &&
         hyper.momentum >= 0.0F && hyper.momentum < 1.0F &&
         (hyper.samples == 0.0F || are_samples(hyper.samples));
}

inline constexpr Words<RuleKind, 11> kRuleWords = {{"sum", "mean", "sgd", "momentum", "nesterov",
                                                    "lars", "adam", "adamw", "adagrad", "lamb",
                                                    "elastic"}};
constexpr std::string_view name_of(RuleKind kind) { return kRuleWords.of(kind); }
constexpr auto parse_rule_kind(std::string_view word) { return kRuleWords.parse(word); }

}  // namespace phub
