#include "kernels/sparse.h"

#include <algorithm>
#include <array>
#include <functional>

#include "common/base/check.h"
#include "kernels/threshold_search.h"

// This file is compiled once for every instruction set by including itself.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/sparse.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/cpu/sparse-inl.h"

#if HWY_ONCE
namespace phub::kernels {

HWY_EXPORT(copy_magnitudes_any);
HWY_EXPORT(count_first_digits_any);
HWY_EXPORT(count_digits_any);
HWY_EXPORT(take_any);
HWY_EXPORT(count_at_least_any);
HWY_EXPORT(measure_magnitudes_any);

namespace {

// The cut at the k-th largest magnitude, of which `ties` are taken.
Cut cut_at(std::uint32_t magnitude, std::uint64_t ties) {
  return {.sure = magnitude + 1, .floor = magnitude, .run = ties};
}

Cut exact_cut(std::span<const float> values, std::size_t k, std::span<std::uint32_t> scratch) {
  PHUB_DCHECK(scratch.size() >= values.size(), "an exact selection sorts a copy");
  HWY_DYNAMIC_DISPATCH(copy_magnitudes_any)(values, scratch.data());
  const auto begin = scratch.begin();
  const auto kth = begin + static_cast<std::ptrdiff_t>(k - 1);
  const auto end = begin + static_cast<std::ptrdiff_t>(values.size());
  std::nth_element(begin, kth, end, std::greater<>());
  const auto larger = std::count_if(begin, kth, [&](std::uint32_t own) { return own > *kth; });
  return cut_at(*kth, k - static_cast<std::uint64_t>(larger));
}

// The digit at which `missing` elements, counted from the largest on, end. Leaves in `missing` how
// many of that digit are wanted.
std::uint32_t last_digit(std::span<const std::uint32_t> counts, std::uint64_t& missing) {
  auto digit = static_cast<std::uint32_t>(counts.size() - 1);
  while (counts[digit] < missing) missing -= counts[digit--];
  return digit;
}

// A digit of the k-th largest magnitude after the other, each by a pass over those that have the
// digits before. Stops where all that have them are wanted.
Cut histogram_cut(std::span<const float> values, std::size_t k) {
  FirstDigits first;
  HWY_DYNAMIC_DISPATCH(count_first_digits_any)(values, first);
  auto& counts = first.rows[0];
  for (std::size_t row = 1; row < FirstDigits::kRows; ++row) {
    for (std::size_t d = 0; d < counts.size(); ++d) counts[d] += first.rows[row][d];
  }
  std::uint64_t missing = k;
  std::uint32_t digit = last_digit(counts, missing);
  std::uint32_t floor = digit << kDigitShifts[0];
  for (std::size_t i = 1; i < kDigitShifts.size(); ++i) {
    const std::uint32_t end = floor + (1U << kDigitShifts[i - 1]);
    if (counts[digit] == missing) return {.sure = end, .floor = floor, .run = missing};
    const std::span<std::uint32_t> next(first.rows[1].data(), kNextDigits);
    std::fill(next.begin(), next.end(), 0U);
    HWY_DYNAMIC_DISPATCH(count_digits_any)(values, floor, end, kDigitShifts[i], next.data());
    digit = last_digit(next, missing);
    floor += digit << kDigitShifts[i];
    std::copy(next.begin(), next.end(), counts.begin());
  }
  return cut_at(floor, missing);
}

// So many rounds of the bisection in a pass keep its counts in registers.
constexpr unsigned kRoundsAPass = 3;

Cut threshold_cut(std::span<const float> values, std::size_t k, const ThresholdOptions& options) {
  const Magnitudes all = measure_magnitudes(values);
  if (all.largest >= 0x7F800000U) return histogram_cut(values, k);
  const Bracket bracket = search_thresholds<kRoundsAPass>(
      all, values.size(), k, options.rounds,
      [&](std::span<const float> thresholds, std::span<std::uint64_t> counts) {
        count_at_least(values, thresholds, counts);
      });
  const std::uint64_t missing = k - bracket.above;
  if (missing == 0) return {.sure = bracket.high, .floor = bracket.high};
  const std::uint64_t places = bracket.all - bracket.above - missing + 1;
  return {
      .sure = bracket.high, .floor = bracket.low, .begin = options.draw % places, .run = missing};
}

}  // namespace

void select(Selector selector, std::span<const float> values, std::size_t k, const Selection& out,
            std::span<std::uint32_t> scratch, const ThresholdOptions& thresholds) {
  PHUB_DCHECK(k <= values.size(), "no more can be selected than there are");
  if (k == 0) return;
  Cut cut;
  switch (selector) {
    case Selector::kExact:
      cut = exact_cut(values, k, scratch);
      break;
    case Selector::kHistogram:
      cut = histogram_cut(values, k);
      break;
    case Selector::kThresholds:
      cut = threshold_cut(values, k, thresholds);
      break;
  }
  HWY_DYNAMIC_DISPATCH(take_any)(values, cut, out);
}

void count_at_least(std::span<const float> values, std::span<const float> thresholds,
                    std::span<std::uint64_t> counts) {
  HWY_DYNAMIC_DISPATCH(count_at_least_any)(values, thresholds, counts);
}

Magnitudes measure_magnitudes(std::span<const float> values) {
  return HWY_DYNAMIC_DISPATCH(measure_magnitudes_any)(values);
}

// A place after the other: what they cost is the cache's misses.
void scatter_add(float* out, const std::uint32_t* indices, Source values, std::size_t count) {
  if (values.type == DataType::kFloat32) {
    const auto* const floats = reinterpret_cast<const float*>(values.data);
    for (std::size_t i = 0; i < count; ++i) out[indices[i]] += floats[i];
    return;
  }
  constexpr std::size_t kAtOnce = 256;
  std::array<float, kAtOnce> wide;  // NOLINT(*-member-init): converted to
  for (std::size_t begin = 0; begin < count; begin += kAtOnce) {
    const std::size_t some = std::min(kAtOnce, count - begin);
    convert(reinterpret_cast<std::byte*>(wide.data()), DataType::kFloat32,
            values.data + begin * size_of(values.type), values.type, some);
    for (std::size_t i = 0; i < some; ++i) out[indices[begin + i]] += wide[i];
  }
}

}  // namespace phub::kernels
#endif  // HWY_ONCE
