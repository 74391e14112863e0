#include "worker/data/images/triangle_filter.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>

namespace phub::data {
namespace {

// Rounds weights so that their sum stays kWeightOne: the largest takes what is left.
void round_weights(std::span<const double> exact, double sum, std::uint16_t* rounded) {
  const double factor = kWeightOne / sum;
  std::int64_t left = kWeightOne;
  std::size_t largest = 0;
  for (std::size_t i = 0; i < exact.size(); ++i) {
    const auto weight = std::llrint(exact[i] * factor);
    left -= weight;
    rounded[i] = static_cast<std::uint16_t>(std::min<std::int64_t>(weight, kWeightOne - 1));
    if (exact[i] > exact[largest]) largest = i;
  }
  const std::int64_t mended = rounded[largest] + left;
  rounded[largest] =
      static_cast<std::uint16_t>(std::clamp<std::int64_t>(mended, 0, kWeightOne - 1));
}

}  // namespace

void TriangleFilter::assign(Interval from, std::uint32_t pixels, std::uint32_t outputs) {
  const auto end = static_cast<std::int64_t>(
      std::fmin(std::ceil(from.begin + from.length), static_cast<double>(pixels)));
  const auto begin = std::min(static_cast<std::int64_t>(from.begin), end - 1);
  const double scale = from.length / outputs;
  const double support = std::max(scale, 1.0);
  const double inverse = 1.0 / support;
  is_identity_ = scale == 1.0 && from.begin == std::floor(from.begin);
  // The centres of at most ceil(2 * support) pixels are within the triangle.
  taps_ = is_identity_ ? 1
                       : static_cast<std::uint32_t>(std::min<std::int64_t>(
                             end - begin, static_cast<std::int64_t>(std::ceil(2 * support))));
  first_.resize(outputs);
  weights_.assign(std::size_t{outputs} * taps_, 0);
  exact_.resize(taps_);
  for (std::uint32_t i = 0; i < outputs; ++i) {
    const double centre = from.begin + (i + 0.5) * scale;
    const auto lowest = static_cast<std::int64_t>(centre + 0.5 - support);  // 0 if negative
    const std::int64_t first = std::clamp(lowest, begin, end - taps_);
    double sum = 0;
    for (std::uint32_t t = 0; t < taps_; ++t) {
      const double distance = std::fabs(static_cast<double>(first + t) + 0.5 - centre);
      exact_[t] = std::max(0.0, 1.0 - distance * inverse);
      sum += exact_[t];
    }
    first_[i] = static_cast<std::uint32_t>(first);
    round_weights(exact_, sum, weights_.data() + std::size_t{i} * taps_);
  }
}

}  // namespace phub::data
