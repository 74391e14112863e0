#include "worker/compress/error_feedback.h"

#include <algorithm>
#include <cmath>

namespace phub::compress {

using kernels::Source;

ErrorFeedback::ErrorFeedback(std::size_t elements, const FeedbackOptions& options)
    : options_(options), rest_(elements), velocity_(options.momentum > 0.0F ? elements : 0) {}

std::span<const float> ErrorFeedback::add(Source gradient) {
  if (!options_.keeps) std::fill(rest_.begin(), rest_.end(), 0.0F);
  Source added = gradient;
  if (!velocity_.empty()) {
    for (float& velocity : velocity_) velocity *= options_.momentum;
    added = {reinterpret_cast<const std::byte*>(velocity_.data()), DataType::kFloat32};
    kernels::add(velocity_.data(), added, gradient, velocity_.size());
  }
  kernels::add(rest_.data(), {reinterpret_cast<const std::byte*>(rest_.data()), DataType::kFloat32},
               added, rest_.size());
  return rest_;
}

void ErrorFeedback::sent(std::size_t element, float value) {
  const float rest = rest_[element] - value;
  // A NaN would be sent for ever, and so would be what 16 bits cannot hold.
  rest_[element] = std::isfinite(rest) ? rest : 0.0F;
  if (!velocity_.empty()) velocity_[element] = 0.0F;
}

}  // namespace phub::compress
