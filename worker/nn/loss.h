// Softmax and cross-entropy over a batch of logits, in plain code: the arrays are tiny.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace phub::nn {

// A class, from 0.
using Label = std::uint16_t;

// A view of the labels of images. A mixed image has two, and a share says how much of it has the
// first (mixup: Zhang et al., arXiv 1710.09412).
struct Labels {
  Labels() = default;
  // These images are not mixed.
  Labels(std::span<const Label> of) : first(of) {}     // NOLINT(google-explicit-constructor)
  Labels(const std::vector<Label>& of) : first(of) {}  // NOLINT(google-explicit-constructor)
  // REQUIRES: `seconds` and `shares` are empty, or have as many elements as `firsts`.
  Labels(std::span<const Label> firsts, std::span<const Label> seconds,
         std::span<const float> shares);

  std::size_t size() const { return first.size(); }
  bool empty() const { return first.empty(); }
  bool are_mixed() const { return !share.empty(); }
  // Those of the images [begin, begin + count), as far as there are labels.
  Labels part(std::size_t begin, std::size_t count) const;

  std::span<const Label> first;   // [image]
  std::span<const Label> second;  // [image], or empty
  std::span<const float> share;   // [image], of the first label, from 0 to 1; or empty
};

struct Loss {
  double sum = 0.0;           // natural-log cross-entropy, summed over the images
  std::uint32_t correct = 0;  // images whose largest logit is the first label's
};

struct LossOptions {
  // The target is (1 - smoothing) of the label and smoothing of all classes evenly (Szegedy et al.,
  // "Rethinking the Inception architecture", 2016, section 7). In [0, 1). A mixed image's two
  // labels divide (1 - smoothing) by their shares.
  float label_smoothing = 0.0F;
  double gradient_scale = 1.0;  // multiplies the gradient, not the loss
};

// Of logits [images][classes]; images = labels.size(). REQUIRES: every label < classes.
Loss softmax_cross_entropy(std::span<const float> logits, const Labels& labels);

// As above; gradient [images][classes] becomes that of the loss averaged over the images:
// (softmax - target) * gradient_scale / images.
Loss softmax_cross_entropy(std::span<const float> logits, const Labels& labels,
                           std::span<float> gradient, const LossOptions& options = {});

// Images whose label is among their k largest logits; of equal ones the first count as larger.
// REQUIRES: every label < classes.
std::uint32_t top_k_correct(std::span<const float> logits, std::span<const Label> labels,
                            std::size_t k);

}  // namespace phub::nn
