// Softmax and cross-entropy over a batch of logits, in plain code: the arrays are tiny.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace phub::nn {

// A class, from 0.
using Label = std::uint16_t;

struct Loss {
  double sum = 0.0;           // natural-log cross-entropy, summed over the images
  std::uint32_t correct = 0;  // images whose largest logit is the label's
};

struct LossOptions {
  // The target is (1 - smoothing) of the label and smoothing of all classes evenly (Szegedy et al.,
  // "Rethinking the Inception architecture", 2016, section 7). In [0, 1).
  float label_smoothing = 0.0F;
  double gradient_scale = 1.0;  // multiplies the gradient, not the loss
};

// Of logits [images][classes]; images = labels.size(). REQUIRES: every label < classes.
Loss softmax_cross_entropy(std::span<const float> logits, std::span<const Label> labels);

// As above; gradient [images][classes] becomes that of the loss averaged over the images:
// (softmax - target) * gradient_scale / images.
Loss softmax_cross_entropy(std::span<const float> logits, std::span<const Label> labels,
                           std::span<float> gradient, const LossOptions& options = {});

// Images whose label is among their k largest logits; of equal ones the first count as larger.
// REQUIRES: every label < classes.
std::uint32_t top_k_correct(std::span<const float> logits, std::span<const Label> labels,
                            std::size_t k);

}  // namespace phub::nn
