#include "worker/nn/loss.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "common/base/check.h"

namespace phub::nn {
namespace {

// What an image is to be: `even` of each class, and more of its two labels.
struct Target {
  Label first = 0, second = 0;  // the same where the image is not mixed
  double of_first = 1.0, of_second = 0.0, even = 0.0;
};

Target target_of(const Labels& labels, std::size_t image, double smoothing, double even) {
  const double all = 1.0 - smoothing;
  const Label first = labels.first[image];
  if (!labels.are_mixed()) return {first, first, all, 0.0, even};
  const auto share = static_cast<double>(labels.share[image]);
  return {first, labels.second[image], all * share, all * (1.0 - share), even};
}

// One image. Subtracts the largest logit so that no exponential overflows.
Loss one_image(std::span<const float> logits, const Target& wanted, std::span<float> gradient,
               double scale) {
  PHUB_DCHECK(wanted.first < logits.size() && wanted.second < logits.size(),
              "labels are below the number of classes");
  const auto largest = std::max_element(logits.begin(), logits.end());
  double sum = 0.0;
  for (const float logit : logits) sum += std::exp(static_cast<double>(logit - *largest));
  const double log_sum = std::log(sum);
  for (std::size_t i = 0; i < gradient.size(); ++i) {
    const double softmax = std::exp(static_cast<double>(logits[i] - *largest) - log_sum);
    const double target = (i == wanted.first ? wanted.of_first : 0.0) +
                          (i == wanted.second ? wanted.of_second : 0.0) + wanted.even;
    gradient[i] = static_cast<float>((softmax - target) * scale);
  }
  // - sum of target * log(softmax)
  const auto below = [&](float logit) { return static_cast<double>(logit - *largest); };
  double expected = wanted.of_first * below(logits[wanted.first]);
  if (wanted.of_second > 0.0) expected += wanted.of_second * below(logits[wanted.second]);
  if (wanted.even > 0.0) {
    for (const float logit : logits) expected += wanted.even * below(logit);
  }
  return {.sum = log_sum - expected, .correct = largest - logits.begin() == wanted.first ? 1U : 0U};
}

}  // namespace

Labels::Labels(std::span<const Label> firsts, std::span<const Label> seconds,
               std::span<const float> shares)
    : first(firsts), second(seconds), share(shares) {
  PHUB_CHECK(second.size() == share.size(), "a share for each second label");
  PHUB_CHECK(second.empty() || second.size() == first.size(), "a second label for each image");
}

Labels Labels::part(std::size_t begin, std::size_t count) const {
  const std::size_t from = std::min(begin, size());
  const std::size_t length = std::min(count, size() - from);
  if (!are_mixed()) return first.subspan(from, length);
  return {first.subspan(from, length), second.subspan(from, length), share.subspan(from, length)};
}

Loss softmax_cross_entropy(std::span<const float> logits, const Labels& labels,
                           std::span<float> gradient, const LossOptions& options) {
  Loss total;
  if (labels.empty()) return total;
  const std::size_t classes = logits.size() / labels.size();
  PHUB_CHECK(logits.size() == classes * labels.size(), "whole rows of logits");
  PHUB_CHECK(gradient.empty() || gradient.size() == logits.size(), "a gradient for each logit");
  const double scale = options.gradient_scale / static_cast<double>(labels.size());
  const auto smoothing = static_cast<double>(options.label_smoothing);
  const double even = smoothing / static_cast<double>(classes);
  for (std::size_t image = 0; image < labels.size(); ++image) {
    const auto row = gradient.empty() ? gradient : gradient.subspan(image * classes, classes);
    const Loss loss = one_image(logits.subspan(image * classes, classes),
                                target_of(labels, image, smoothing, even), row, scale);
    total.sum += loss.sum;
    total.correct += loss.correct;
  }
  return total;
}

Loss softmax_cross_entropy(std::span<const float> logits, const Labels& labels) {
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
