#include "worker/compress/error_feedback.h"

#include <algorithm>
#include <cmath>

namespace phub::compress {

using kernels::Source;

namespace {

Source source_of(std::span<const float> values) {
  return {std::as_bytes(values).data(), DataType::kFloat32};
}

// Sums of what is finite may be infinite all the same.
void bound(std::span<float> sums) {
  if (kernels::all_finite(source_of(sums), sums.size())) return;
  constexpr float kMost = 0x1p127F;
  for (float& sum : sums) sum = std::clamp(sum, -kMost, kMost);
}

}  // namespace

ErrorFeedback::ErrorFeedback(std::size_t elements, const FeedbackOptions& options)
    : options_(options),
      rest_(elements),
      velocity_(options.momentum > 0.0F ? elements : 0),
      rest_before_(options.undoes ? elements : 0),
      velocity_before_(options.undoes ? velocity_.size() : 0) {}

void ErrorFeedback::begin_round() {
  if (options_.undoes) {
    std::ranges::copy(rest_, rest_before_.begin());
    std::ranges::copy(velocity_, velocity_before_.begin());
  }
  if (!options_.keeps) std::fill(rest_.begin(), rest_.end(), 0.0F);
}

bool ErrorFeedback::add(std::size_t offset, Source gradient, std::size_t elements) {
  if (!kernels::all_finite(gradient, elements)) return false;
  Source added = gradient;
  if (!velocity_.empty()) {
    const std::span<float> velocities(velocity_.data() + offset, elements);
    for (float& velocity : velocities) velocity *= options_.momentum;
    added = source_of(velocities);
    kernels::add(velocities.data(), added, gradient, elements);
    bound(velocities);
  }
  const std::span<float> rests(rest_.data() + offset, elements);
  kernels::add(rests.data(), source_of(rests), added, elements);
  bound(rests);
  return true;
}

void ErrorFeedback::rescale(float by) {
  for (std::vector<float>* const values : {&rest_, &velocity_}) {
    for (float& value : *values) value *= by;
    bound(*values);
  }
}

void ErrorFeedback::undo(std::size_t offset, std::size_t elements) {
  std::copy_n(rest_before_.data() + offset, elements, rest_.data() + offset);
  if (velocity_.empty()) return;
  std::copy_n(velocity_before_.data() + offset, elements, velocity_.data() + offset);
}

void ErrorFeedback::sent(std::size_t element, float value) {
  const float rest = rest_[element] - value;
  // What few bits stand for may be beyond what fp32 holds.
  rest_[element] = std::isfinite(rest) ? rest : 0.0F;
  if (!velocity_.empty()) velocity_[element] = 0.0F;
}

void ErrorFeedback::unused(std::size_t element, float value) {
  if (std::abs(value) <= kMostUnused) rest_[element] += value;
}

}  // namespace phub::compress
