// The passes of the selectors over an array, for the instruction set that is being compiled.
// Included once for each by sparse.cc.
#if defined(PHUB_KERNELS_SPARSE_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef PHUB_KERNELS_SPARSE_INL_H
#undef PHUB_KERNELS_SPARSE_INL_H
#else
#define PHUB_KERNELS_SPARSE_INL_H
#endif

#include <hwy/highway.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/cpu/sparse_cut.h"
#include "kernels/sparse.h"

HWY_BEFORE_NAMESPACE();
namespace phub::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Magnitudes are below 2^31, so that signed comparisons, which all instruction sets have, do.
using Signed = hn::ScalableTag<std::int32_t>;

HWY_INLINE std::uint32_t magnitude_of(const float* value) {
  std::uint32_t bits = 0;
  std::memcpy(&bits, value, sizeof(bits));
  return bits & kMagnitudeMask;
}

HWY_INLINE hn::Vec<Signed> magnitudes_at(const float* values) {
  const hn::RebindToFloat<Signed> df;
  return hn::And(hn::BitCast(Signed(), hn::LoadU(df, values)),
                 hn::Set(Signed(), static_cast<std::int32_t>(kMagnitudeMask)));
}

// Calls each(index, magnitude), ascending, for the elements of magnitude `floor` and above and
// below `end`. Blocks of four vectors without any are passed over: where few are large, nearly all.
template <typename Each>
HWY_INLINE void for_each_from(std::span<const float> values, std::uint32_t floor, std::uint32_t end,
                              Each each) {
  const std::size_t lanes = hn::Lanes(Signed());
  const std::size_t block = 4 * lanes;
  const auto below = hn::Set(Signed(), static_cast<std::int32_t>(floor) - 1);
  const auto one = [&](std::size_t i) {
    const std::uint32_t own = magnitude_of(values.data() + i);
    if (own >= floor && own < end) each(i, own);
  };
  std::size_t i = 0;
  for (; i + block <= values.size(); i += block) {
    const float* const at = values.data() + i;
    const auto largest =
        hn::Max(hn::Max(magnitudes_at(at), magnitudes_at(at + lanes)),
                hn::Max(magnitudes_at(at + 2 * lanes), magnitudes_at(at + 3 * lanes)));
    if (hn::AllFalse(Signed(), hn::Gt(largest, below))) continue;
    for (std::size_t j = i; j < i + block; ++j) one(j);
  }
  for (; i < values.size(); ++i) one(i);
}

inline void copy_magnitudes_any(std::span<const float> values, std::uint32_t* out) {
  const hn::RebindToUnsigned<Signed> du;
  const std::size_t lanes = hn::Lanes(du);
  std::size_t i = 0;
  for (; i + lanes <= values.size(); i += lanes) {
    hn::StoreU(hn::BitCast(du, magnitudes_at(values.data() + i)), du, out + i);
  }
  for (; i < values.size(); ++i) out[i] = magnitude_of(values.data() + i);
}

// counts[d] = the elements whose first digit is d. Neighbours, which often have the same one, are
// counted in different rows: an addition does not wait for the one before.
inline void count_first_digits_any(std::span<const float> values, FirstDigits& counts) {
  constexpr std::size_t kRows = FirstDigits::kRows;
  std::size_t i = 0;
  for (; i + kRows <= values.size(); i += kRows) {
    HWY_UNROLL(4)
    for (std::size_t row = 0; row < kRows; ++row) {
      ++counts.rows[row][magnitude_of(values.data() + i + row) >> kDigitShifts[0]];
    }
  }
  for (; i < values.size(); ++i)
    ++counts.rows[0][magnitude_of(values.data() + i) >> kDigitShifts[0]];
}

// counts[d] = the elements from `floor` on and below `end` whose digit at `shift` is d.
inline void count_digits_any(std::span<const float> values, std::uint32_t floor, std::uint32_t end,
                             unsigned shift, std::uint32_t* counts) {
  for_each_from(values, floor, end,
                [=](std::size_t, std::uint32_t own) { ++counts[(own - floor) >> shift]; });
}

inline void take_any(std::span<const float> values, const Cut& cut, const Selection& out) {
  std::size_t taken = 0;
  std::uint64_t between = 0;
  for_each_from(values, cut.floor, kMagnitudeMask + 1, [&](std::size_t i, std::uint32_t own) {
    // Wraps around before the run begins: then it is in no run.
    if (own < cut.sure && between++ - cut.begin >= cut.run) return;
    out.indices[taken] = static_cast<std::uint32_t>(i);
    out.values[taken++] = values[i];
  });
}

// A lane counts below 2^31: an array has fewer than 2^32 elements, and a vector several lanes.
// Where it has one only (no instruction set at all) the sign is a digit too.
inline void count_at_least_any(std::span<const float> values, std::span<const float> thresholds,
                               std::span<std::uint64_t> counts) {
  const std::size_t lanes = hn::Lanes(Signed());
  constexpr std::size_t kMost = kMaxThresholds;
  hn::Vec<Signed> below[kMost];
  hn::Vec<Signed> sums[kMost];
  for (std::size_t t = 0; t < kMost; ++t) {
    const bool is_there = t < thresholds.size();
    const std::uint32_t bits = is_there ? magnitude_of(&thresholds[t]) : kMagnitudeMask;
    below[t] = hn::Set(Signed(), static_cast<std::int32_t>(bits) - 1);
    sums[t] = hn::Zero(Signed());
  }
  std::size_t i = 0;
  for (; i + lanes <= values.size(); i += lanes) {
    const auto own = magnitudes_at(values.data() + i);
    for (std::size_t t = 0; t < thresholds.size(); ++t) {
      // A comparison that is true is -1 in each of its lanes.
      sums[t] = hn::Sub(sums[t], hn::VecFromMask(Signed(), hn::Gt(own, below[t])));
    }
  }
  for (std::size_t t = 0; t < thresholds.size(); ++t) {
    HWY_ALIGN std::int32_t lane_counts[hn::MaxLanes(Signed())];
    hn::Store(sums[t], Signed(), lane_counts);
    counts[t] = 0;
    for (std::size_t lane = 0; lane < lanes; ++lane) {
      counts[t] += static_cast<std::uint32_t>(lane_counts[lane]);
    }
    for (std::size_t j = i; j < values.size(); ++j) {
      counts[t] += magnitude_of(&values[j]) >= magnitude_of(&thresholds[t]) ? 1U : 0U;
    }
  }
}

inline Magnitudes measure_magnitudes_any(std::span<const float> values) {
  const hn::CappedTag<double, kSquareLanes> d;
  const hn::Rebind<float, decltype(d)> df;
  const hn::RebindToSigned<decltype(df)> di;
  const std::size_t lanes = hn::Lanes(d);
  constexpr std::size_t kVectors = kSquareLanes / hn::MaxLanes(d);
  hn::Vec<decltype(d)> sums[kVectors];
  for (auto& sum : sums) sum = hn::Zero(d);
  auto largest = hn::Zero(di);
  std::size_t i = 0;
  for (; i + kSquareLanes <= values.size(); i += kSquareLanes) {
    HWY_UNROLL(8)
    for (std::size_t v = 0; v < kVectors; ++v) {
      const auto own = hn::Abs(hn::LoadU(df, values.data() + i + v * lanes));
      sums[v] = hn::Add(sums[v], hn::PromoteTo(d, own));
      largest = hn::Max(largest, hn::BitCast(di, own));
    }
  }
  HWY_ALIGN double partial[kSquareLanes];
  for (std::size_t v = 0; v < kVectors; ++v) hn::StoreU(sums[v], d, partial + v * lanes);
  Magnitudes all;
  all.largest = static_cast<std::uint32_t>(hn::GetLane(hn::MaxOfLanes(di, largest)));
  for (; i < values.size(); ++i) {
    const std::uint32_t own = magnitude_of(values.data() + i);
    float value = 0.0F;
    std::memcpy(&value, &own, sizeof(value));
    partial[i % kSquareLanes] += static_cast<double>(value);
    all.largest = HWY_MAX(all.largest, own);
  }
  for (std::size_t half = kSquareLanes / 2; half > 0; half /= 2) {
    for (std::size_t lane = 0; lane < half; ++lane) partial[lane] += partial[lane + half];
  }
  all.sum = partial[0];
  return all;
}

}  // namespace phub::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // PHUB_KERNELS_SPARSE_INL_H
