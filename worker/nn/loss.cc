#include "worker/nn/loss.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "common/base/check.h"

namespace phub::nn {
namespace {

// One image. Subtracts the largest logit so that no exponential overflows.
Loss one_image(std::span<const float> logits, Label label, std::span<float> gradient,
               double smoothing, double scale) {
  PHUB_DCHECK(label < logits.size(), "labels are below the number of classes");
  const auto largest = std::max_element(logits.begin(), logits.end());
  double sum = 0.0;
  for (const float logit : logits) sum += std::exp(static_cast<double>(logit - *largest));
  const double log_sum = std::log(sum);
  const double even = smoothing / static_cast<double>(logits.size());
  for (std::size_t i = 0; i < gradient.size(); ++i) {
    const double softmax = std::exp(static_cast<double>(logits[i] - *largest) - log_sum);
    const double target = (i == label ? 1.0 - smoothing : 0.0) + even;
    gradient[i] = static_cast<float>((softmax - target) * scale);
  }
  // - sum of target * log(softmax)
  double expected = (1.0 - smoothing) * static_cast<double>(logits[label] - *largest);
  if (smoothing > 0.0) {
    for (const float logit : logits) expected += even * static_cast<double>(logit - *largest);
  }
  return {.sum = log_sum - expected, .correct = largest - logits.begin() == label ? 1U : 0U};
}

}  // namespace

Loss softmax_cross_entropy(std::span<const float> logits, std::span<const Label> labels,
                           std::span<float> gradient, const LossOptions& options) {
  Loss total;
  if (labels.empty()) return total;
  const std::size_t classes = logits.size() / labels.size();
  PHUB_CHECK(logits.size() == classes * labels.size(), "whole rows of logits");
  PHUB_CHECK(gradient.empty() || gradient.size() == logits.size(), "a gradient for each logit");
  const double scale = options.gradient_scale / static_cast<double>(labels.size());
  const auto smoothing = static_cast<double>(options.label_smoothing);
  for (std::size_t image = 0; image < labels.size(); ++image) {
    const auto row = gradient.empty() ? gradient : gradient.subspan(image * classes, classes);
    const Loss loss =
        one_image(logits.subspan(image * classes, classes), labels[image], row, smoothing, scale);
    total.sum += loss.sum;
    total.correct += loss.correct;
  }
  return total;
}

Loss softmax_cross_entropy(std::span<const float> logits, std::span<const Label> labels) {
  return softmax_cross_entropy(logits, labels, {});
}

std::uint32_t top_k_correct(std::span<const float> logits, std::span<const Label> labels,
                            std::size_t k) {
  if (labels.empty()) return 0;
  const std::size_t classes = logits.size() / labels.size();
  PHUB_CHECK(logits.size() == classes * labels.size(), "whole rows of logits");
  std::uint32_t correct = 0;
  for (std::size_t image = 0; image < labels.size(); ++image) {
    const auto row = logits.subspan(image * classes, classes);
    const auto label = row.begin() + labels[image];
    const auto larger =
        std::count_if(row.begin(), label, [&](float logit) { return logit >= *label; }) +
        std::count_if(label, row.end(), [&](float logit) { return logit > *label; });
    if (static_cast<std::size_t>(larger) < k) ++correct;
  }
  return correct;
}

}  // namespace phub::nn
