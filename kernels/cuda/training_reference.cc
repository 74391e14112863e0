#include "kernels/cuda/training_reference.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "kernels/cuda/host_array.h"
#include "kernels/lamb.h"

namespace phub::kernels::cuda::reference {
namespace {

// Calls visit(tensor, element) for the elements of all chunks; `size` tells a tensor's.
template <typename Arguments, typename Size, typename Visit>
void for_each(const Arguments& a, Size size, Visit visit) {
  for (std::int64_t i = 0; i < a.chunk_count; ++i) {
    const auto& tensor = a.tensors[a.chunks[i].tensor];
    const std::int64_t first = std::int64_t{a.chunks[i].chunk} * kChunkElements;
    const std::int64_t end = std::min(first + kChunkElements, size(tensor));
    for (std::int64_t element = first; element < end; ++element) visit(tensor, element);
  }
}

float gradient_at(const OptimizerStep& a, const OptimizedTensor& t, std::int64_t i) {
  return load(t.gradient, t.gradient_type, i) * a.gradient_scale;
}

double square(float value) { return double{value} * double{value}; }

float trust_of(const OptimizerStep& a, double weights, double gradients) {
  const double weight = std::sqrt(weights), gradient = std::sqrt(gradients);
  if (weight == 0.0 || gradient == 0.0) return 1.0F;
  return static_cast<float>(double{a.lars_coefficient} * weight /
                            (gradient + double{a.weight_decay} * weight + double{a.lars_epsilon}));
}

void find_trust(const OptimizerStep& a) {
  for (std::int64_t t = 0; t < a.tensor_count; ++t) {
    const OptimizedTensor& tensor = a.tensors[t];
    double weights = 0.0, gradients = 0.0;
    for (std::int64_t i = 0; i < tensor.elements; ++i) {
      weights += square(tensor.weights[i]);
      gradients += square(gradient_at(a, tensor, i));
    }
    a.trust[t] = tensor.decays ? trust_of(a, weights, gradients) : 1.0F;
  }
}

RuleKind kind_of(LocalRule rule) {
  switch (rule) {
    case LocalRule::kAdam:
      return RuleKind::kAdam;
    case LocalRule::kAdamW:
      return RuleKind::kAdamW;
    case LocalRule::kLamb:
      return RuleKind::kLamb;
    default:
      return RuleKind::kAdagrad;
  }
}

void add_to_means(const AdaptiveStep& k, const OptimizedTensor& t, std::int64_t i, float gradient) {
  const float added_mean = k.add_mean * gradient;
  t.velocity[i] = k.keep_mean * t.velocity[i] + added_mean;
  const float square = gradient * gradient;
  const float added_square = k.add_square * square;
  t.squares[i] = k.keep_square * t.squares[i] + added_square;
}

float adam_change(const AdaptiveStep& k, const OptimizedTensor& t, std::int64_t i) {
  const float root = std::sqrt(t.squares[i]) * k.root_scale;
  const float quotient = t.velocity[i] / (root + k.epsilon);
  return k.rate * quotient;
}

float lamb_direction(const OptimizerStep& a, const OptimizedTensor& t, std::int64_t i) {
  const float decay = t.decays ? a.weight_decay * t.weights[i] : 0.0F;
  return adam_change(*a.factors, t, i) + decay;
}

// Brings the means to this step.
void find_lamb_trust(const OptimizerStep& a) {
  for (std::int64_t t = 0; t < a.tensor_count; ++t) {
    const OptimizedTensor& tensor = a.tensors[t];
    double weights = 0.0, directions = 0.0;
    for (std::int64_t i = 0; i < tensor.elements; ++i) {
      add_to_means(*a.factors, tensor, i, gradient_at(a, tensor, i));
      weights += square(tensor.weights[i]);
      directions += square(lamb_direction(a, tensor, i));
    }
    a.trust[t] = tensor.decays ? lamb_trust(weights, directions) : 1.0F;
  }
}

void update_adaptive(const OptimizerStep& a, const OptimizedTensor& t, std::int64_t i) {
  const AdaptiveStep& k = *a.factors;
  float& weight = t.weights[i];
  if (a.rule == LocalRule::kLamb) {
    const float local_rate = a.learning_rate * a.trust[&t - a.tensors];
    weight -= local_rate * lamb_direction(a, t, i);
    return;
  }
  const float gradient = gradient_at(a, t, i);
  if (a.rule == LocalRule::kAdamW) {
    if (t.decays) weight *= decoupled_decay(a.learning_rate, a.weight_decay);
    add_to_means(k, t, i, gradient);
    weight -= adam_change(k, t, i);
    return;
  }
  const float decayed = t.decays ? gradient + a.weight_decay * weight : gradient;
  if (a.rule == LocalRule::kAdam) {
    add_to_means(k, t, i, decayed);
    weight -= adam_change(k, t, i);
    return;
  }
  t.velocity[i] += decayed * decayed;
  const float quotient = decayed / (std::sqrt(t.velocity[i]) + k.epsilon);
  weight -= k.rate * quotient;
}

}  // namespace

void run(const LoadParameters& a) {
  const auto size = [](const ParameterTensor& t) { return t.padded_k * t.pixels * t.padded_c; };
  for_each(a, size, [](const ParameterTensor& t, std::int64_t i) {
    const std::int64_t c = i % t.padded_c;
    const std::int64_t pixel = i / t.padded_c % t.pixels;
    const std::int64_t k = i / t.padded_c / t.pixels;
    const bool there = k < t.k && c < t.c;
    store(t.padded, t.padded_type, i,
          there ? load(t.plain, t.plain_type, (k * t.c + c) * t.pixels + pixel) : 0.0F);
  });
}

void run(const PublishGradients& a) {
  const auto size = [](const ParameterTensor& t) { return t.k * t.c * t.pixels; };
  for_each(a, size, [&](const ParameterTensor& t, std::int64_t i) {
    const std::int64_t pixel = i % t.pixels;
    const std::int64_t c = i / t.pixels % t.c;
    const std::int64_t k = i / t.pixels / t.c;
    const float padded = load(t.padded, t.padded_type, (k * t.pixels + pixel) * t.padded_c + c);
    store(t.plain, t.plain_type, i, padded * a.scale);
    if (!std::isfinite(load(t.plain, t.plain_type, i))) *a.not_finite = 1;
  });
}

void run(const SoftmaxLoss& a) {
  for (std::int64_t image = 0; image < a.images; ++image) {
    const std::int64_t row = image * a.padded_classes;
    const std::int64_t label = a.labels[image];
    const bool is_mixed = a.second_labels != nullptr;
    const std::int64_t second = is_mixed ? a.second_labels[image] : label;
    const double first_share = is_mixed ? double{a.label_shares[image]} : 1.0;
    std::int64_t best = 0;
    for (std::int64_t c = 1; c < a.classes; ++c) {
      if (load(a.logits, a.type, row + c) > load(a.logits, a.type, row + best)) best = c;
    }
    const float largest = load(a.logits, a.type, row + best);
    double sum = 0.0;
    for (std::int64_t c = 0; c < a.classes; ++c) {
      sum += std::exp(double{load(a.logits, a.type, row + c) - largest});
    }
    const double share = double{a.smoothing} / static_cast<double>(a.classes);
    double loss = 0.0;
    for (std::int64_t c = 0; c < a.padded_classes; ++c) {
      const bool real = c < a.classes;
      const double log_softmax =
          real ? double{load(a.logits, a.type, row + c) - largest} - std::log(sum) : 0.0;
      const double of_labels =
          (c == label ? first_share : 0.0) + (c == second ? 1.0 - first_share : 0.0);
      const double target = share + (1.0 - double{a.smoothing}) * of_labels;
      if (real) loss -= target * log_softmax;
      if (a.gradient == nullptr) continue;
      const double gradient = (std::exp(log_softmax) - target) * double{a.scale};
      store(a.gradient, a.type, row + c, real ? static_cast<float>(gradient) : 0.0F);
    }
    a.loss[image] = static_cast<float>(loss);
    a.correct[image] = best == label ? 1 : 0;
  }
}

void run(const OptimizerStep& a) {
  if (*a.skip != 0) return;
  const bool lars = a.rule == LocalRule::kLars;
  if (lars) find_trust(a);
  const auto size = [](const OptimizedTensor& t) { return t.elements; };
  if (is_adaptive(a.rule)) {
    const auto before = static_cast<std::uint64_t>((*a.updates)++);
    *a.factors = adaptive_step(kind_of(a.rule), a.adaptive, a.learning_rate, before);
    if (a.rule == LocalRule::kLamb) find_lamb_trust(a);
    return for_each(a, size,
                    [&](const OptimizedTensor& t, std::int64_t i) { update_adaptive(a, t, i); });
  }
  for_each(a, size, [&](const OptimizedTensor& t, std::int64_t i) {
    const float gradient = gradient_at(a, t, i);
    const float decayed = t.decays ? gradient + a.weight_decay * t.weights[i] : gradient;
    const float rate = lars ? a.learning_rate * a.trust[&t - a.tensors] : 1.0F;
    t.velocity[i] = a.momentum * t.velocity[i] + rate * decayed;
    const float direction =
        a.rule == LocalRule::kNesterov ? decayed + a.momentum * t.velocity[i] : t.velocity[i];
    t.weights[i] -= lars ? direction : a.learning_rate * direction;
  });
}

void run(const PrepareImages& a) {
  const std::int64_t pixels = a.images * a.height * a.width;
  for (std::int64_t i = 0; i < pixels; ++i) {
    const std::int64_t column = i % a.width;
    const std::int64_t row = i / a.width % a.height;
    const std::int64_t image = i / a.width / a.height;
    const bool flip = a.flip != nullptr && a.flip[image] != 0;
    const std::int64_t y = row + (a.top != nullptr ? a.top[image] : 0);
    const std::int64_t x =
        (flip ? a.width - 1 - column : column) + (a.left != nullptr ? a.left[image] : 0);
    const bool inside = y >= 0 && y < a.source_height && x >= 0 && x < a.source_width;
    const std::int64_t from = ((image * a.source_height + y) * a.source_width + x) * a.channels;
    for (std::int64_t c = 0; c < a.padded_channels; ++c) {
      float value = 0.0F;
      if (c < a.channels) {
        if (inside) {
          value = a.bytes
                      ? static_cast<float>(static_cast<const std::uint8_t*>(a.source)[from + c]) /
                            255.0F
                      : static_cast<const float*>(a.source)[from + c];
        }
        value = (value - a.mean[c]) / a.deviation[c];
      }
      store(a.target, a.type, i * a.padded_channels + c, value);
    }
  }
}

void run(const CountMagnitudes& a) {
  const auto magnitude = [](float value) {
    return std::bit_cast<std::uint32_t>(value) & 0x7FFFFFFFU;
  };
  for (int t = 0; t < a.threshold_count; ++t) {
    for (std::int64_t i = 0; i < a.elements; ++i) {
      a.counts[t] += magnitude(a.values[i]) >= magnitude(a.thresholds[t]) ? 1U : 0U;
    }
  }
}

}  // namespace phub::kernels::cuda::reference
