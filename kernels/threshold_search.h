// The bisection of MSTopK (kernels/sparse.h), several of its rounds in one pass over the array. For
// whoever can count: processors here, GPUs with kernels/cuda/sparse_arguments.h.
//
// Pure; any thread.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/sparse.h"

namespace phub::kernels {

// What the bisection ends with: `above` elements reach `high`, at most k; `all` reach `low`, more.
struct Bracket {
  std::uint32_t high = 0x80000000U;  // bits of a magnitude; at first above all
  std::uint32_t low = 0;
  std::uint64_t above = 0;
  std::uint64_t all = 0;
};

// A pass decides kRounds of the bisection: all thresholds that they may ask for are counted at
// once. count(thresholds, counts) is count_at_least over the array. REQUIRES: 0 < k <= elements;
// the magnitudes are finite.
template <unsigned kRounds, typename Count>
Bracket search_thresholds(const Magnitudes& magnitudes, std::uint64_t elements, std::uint64_t k,
                          unsigned rounds, Count count) {
  constexpr std::size_t kParts = std::size_t{1} << kRounds;
  static_assert(kParts - 1 <= kMaxThresholds);
  const double mean = magnitudes.sum / static_cast<double>(elements);
  const double range = static_cast<double>(std::bit_cast<float>(magnitudes.largest)) - mean;
  std::array<float, kParts - 1> thresholds{};
  std::array<std::uint64_t, kParts - 1> counts{};
  Bracket bracket{.all = elements};
  double left = 0.0;
  double width = 1.0;
  for (unsigned round = 0; round < rounds && bracket.above < k; round += kRounds) {
    for (std::size_t i = 1; i < kParts; ++i) {
      const double q = left + width * static_cast<double>(i) / kParts;
      thresholds[i - 1] = static_cast<float>(mean + q * range);
    }
    count(std::span<const float>(thresholds), std::span<std::uint64_t>(counts));
    std::size_t at = 0;
    std::size_t step = kParts / 2;
    for (unsigned r = round; step > 0 && r < rounds && bracket.above < k; ++r, step /= 2) {
      const std::size_t i = at + step - 1;
      const auto bits = std::bit_cast<std::uint32_t>(thresholds[i]);
      if (counts[i] <= k) {
        if (counts[i] > bracket.above) bracket.high = bits, bracket.above = counts[i];
      } else {
        at += step;
        if (counts[i] < bracket.all) bracket.low = bits, bracket.all = counts[i];
      }
    }
    left += width * static_cast<double>(at) / kParts;
    width /= kParts;
  }
  return bracket;
}

}  // namespace phub::kernels
