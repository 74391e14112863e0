// Softmax and cross-entropy over a batch of logits, in plain code: the arrays are tiny.
#pragma once

#include <cstdint>
#include <span>

namespace phub::nn {

struct Loss {
  double sum = 0.0;           // natural-log cross-entropy, summed over the images
  std::uint32_t correct = 0;  // images whose largest logit is the label's
};

// Of logits [images][classes]; images = labels.size(). REQUIRES: every label < classes.
Loss softmax_cross_entropy(std::span<const float> logits, std::span<const std::uint8_t> labels);

// As above; gradient [images][classes] becomes that of the loss averaged over the images:
// (softmax - one_hot) / images.
Loss softmax_cross_entropy(std::span<const float> logits, std::span<const std::uint8_t> labels,
                           std::span<float> gradient);

}  // namespace phub::nn
