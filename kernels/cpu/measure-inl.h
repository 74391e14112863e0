// What is asked about arrays (norms, whether all is finite), for the instruction set that is being
// compiled. Included once for each by reduce.cc.
#if defined(PHUB_KERNELS_MEASURE_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef PHUB_KERNELS_MEASURE_INL_H
#undef PHUB_KERNELS_MEASURE_INL_H
#else
#define PHUB_KERNELS_MEASURE_INL_H
#endif

#include <hwy/highway.h>

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/convert-inl.h"
#include "kernels/reduce.h"

HWY_BEFORE_NAMESPACE();
namespace phub::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// As many partial sums as the specification has, whatever a vector holds.
inline double sum_of_squares_any(const float* values, std::size_t elements) {
  const hn::CappedTag<double, kSquareLanes> d;
  const hn::Rebind<float, decltype(d)> df;
  const std::size_t lanes = hn::Lanes(d);
  constexpr std::size_t kMostVectors = kSquareLanes / hn::MaxLanes(d);
  hn::Vec<decltype(d)> sums[kMostVectors];
  for (auto& sum : sums) sum = hn::Zero(d);
  std::size_t i = 0;
  for (; i + kSquareLanes <= elements; i += kSquareLanes) {
    HWY_UNROLL(8)
    for (std::size_t v = 0; v < kMostVectors; ++v) {
      const auto value = hn::PromoteTo(d, hn::LoadU(df, values + i + v * lanes));
      sums[v] = hn::Add(sums[v], hn::Mul(value, value));
    }
  }
  HWY_ALIGN double partial[kSquareLanes];
  for (std::size_t v = 0; v < kMostVectors; ++v) hn::StoreU(sums[v], d, partial + v * lanes);
  for (; i < elements; ++i) {
    const auto value = static_cast<double>(values[i]);
    partial[i % kSquareLanes] += value * value;
  }
  for (std::size_t half = kSquareLanes / 2; half > 0; half /= 2) {
    for (std::size_t lane = 0; lane < half; ++lane) partial[lane] += partial[lane + half];
  }
  return partial[0];
}

// The largest magnitude as an integer tells: infinities and NaNs are above all numbers.
template <class D>
HWY_INLINE hn::Vec<hn::RebindToSigned<D>> magnitude_at(D d, Source source, std::size_t index) {
  const hn::RebindToSigned<D> di;
  return hn::And(hn::BitCast(di, load_as(d, source, index)), hn::Set(di, 0x7FFFFFFF));
}

// Of 16-bit elements, as integers: the type says which are not finite.
inline std::int16_t largest_magnitude16(const std::int16_t* values, std::size_t elements) {
  const hn::ScalableTag<std::int16_t> d;
  const std::size_t lanes = hn::Lanes(d);
  const auto magnitude = hn::Set(d, std::int16_t{0x7FFF});
  auto largest = hn::Zero(d);
  std::size_t i = 0;
  for (; i + lanes <= elements; i += lanes) {
    largest = hn::Max(largest, hn::And(hn::LoadU(d, values + i), magnitude));
  }
  HWY_ALIGN std::int16_t of_lanes[hn::MaxLanes(d)];
  hn::StoreU(largest, d, of_lanes);
  std::int16_t last = 0;
  for (std::size_t lane = 0; lane < lanes; ++lane) last = HWY_MAX(last, of_lanes[lane]);
  for (; i < elements; ++i) {
    const auto value = static_cast<std::int16_t>(values[i] & 0x7FFF);
    last = HWY_MAX(last, value);
  }
  return last;
}

inline bool all_finite_any(Source source, std::size_t elements) {
  if (source.type != DataType::kFloat32) {
    const std::int16_t infinity = source.type == DataType::kFloat16 ? 0x7C00 : 0x7F80;
    const auto* const values = reinterpret_cast<const std::int16_t*>(source.data);
    return largest_magnitude16(values, elements) < infinity;
  }
  const hn::ScalableTag<float> d;
  const hn::RebindToSigned<decltype(d)> di;
  const std::size_t lanes = hn::Lanes(d);
  auto largest = hn::Zero(di);
  std::size_t i = 0;
  for (; i + lanes <= elements; i += lanes) largest = hn::Max(largest, magnitude_at(d, source, i));
  const hn::CappedTag<float, 1> d1;
  std::int32_t last = 0;
  for (; i < elements; ++i) last = HWY_MAX(last, hn::GetLane(magnitude_at(d1, source, i)));
  return HWY_MAX(hn::GetLane(hn::MaxOfLanes(di, largest)), last) < 0x7F800000;
}

}  // namespace phub::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // PHUB_KERNELS_MEASURE_INL_H
