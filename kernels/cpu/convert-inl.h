// Vectors of fp32 from and to the wire types, for the instruction set that is being compiled.
// Included once for each by reduce.cc; see hwy/foreach_target.h for the guard.
#if defined(PHUB_KERNELS_CONVERT_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef PHUB_KERNELS_CONVERT_INL_H
#undef PHUB_KERNELS_CONVERT_INL_H
#else
#define PHUB_KERNELS_CONVERT_INL_H
#endif

#include <hwy/highway.h>

#include <cstddef>
#include <cstdint>

#include "common/base/dtype.h"
#include "kernels/reduce.h"

HWY_BEFORE_NAMESPACE();
namespace phub::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <class D>
HWY_INLINE hn::Vec<D> float_from_bits(D d, hn::Vec<hn::RebindToUnsigned<D>> bits) {
  return hn::BitCast(d, bits);
}

// Loads 16-bit lanes into the low halves of 32-bit ones.
template <class D>
HWY_INLINE hn::Vec<hn::RebindToUnsigned<D>> load_u16(D d, const std::uint16_t* source) {
  const hn::RebindToUnsigned<D> du32;
  const hn::Rebind<std::uint16_t, D> du16;
  (void)d;
  return hn::PromoteTo(du32, hn::LoadU(du16, source));
}

// REQUIRES: every lane fits 16 bits.
template <class D>
HWY_INLINE void store_u16(D d, hn::Vec<hn::RebindToUnsigned<D>> bits, std::uint16_t* destination) {
  const hn::RebindToSigned<D> di32;
  const hn::Rebind<std::uint16_t, D> du16;
  (void)d;
  hn::StoreU(hn::DemoteTo(du16, hn::BitCast(di32, bits)), du16, destination);
}

template <class D>
HWY_INLINE hn::Vec<D> load_bfloat16(D d, const std::uint16_t* source) {
  return float_from_bits(d, hn::ShiftLeft<16>(load_u16(d, source)));
}

// Highway 1.0.3 truncates; this rounds to nearest even.
template <class D>
HWY_INLINE void store_bfloat16(D d, hn::Vec<D> value, std::uint16_t* destination) {
  const hn::RebindToUnsigned<D> du;
  const auto bits = hn::BitCast(du, value);
  const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(du, 1U));
  const auto rounded = hn::Add(hn::Add(bits, hn::Set(du, 0x7FFFU)), odd);
  const auto quiet = hn::Or(bits, hn::Set(du, 0x00400000U));
  const auto is_nan = hn::RebindMask(du, hn::IsNaN(value));
  const hn::Rebind<std::uint16_t, D> du16;
  (void)d;
  const auto high = hn::ShiftRight<16>(hn::IfThenElse(is_nan, quiet, rounded));
  hn::StoreU(hn::TruncateTo(du16, high), du16, destination);
}

#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2

// VCVTPH2PS and VCVTPS2PH: nearest even whatever the rounding mode, subnormals kept.
template <class D>
HWY_INLINE hn::Vec<D> load_float16(D d, const std::uint16_t* source) {
  const hn::Rebind<std::uint16_t, D> du16;
  const hn::Rebind<hwy::float16_t, D> df16;
  return hn::PromoteTo(d, hn::BitCast(df16, hn::LoadU(du16, source)));
}

template <class D>
HWY_INLINE void store_float16(D d, hn::Vec<D> value, std::uint16_t* destination) {
  const hn::Rebind<std::uint16_t, D> du16;
  const hn::Rebind<hwy::float16_t, D> df16;
  (void)d;
  hn::StoreU(hn::BitCast(du16, hn::DemoteTo(df16, value)), du16, destination);
}

#else

// Highway 1.0.3 emulates these without rounding, infinities and NaN. After F. Giesen,
// "half_to_float" and "float_to_half_fast3_rtne" (https://gist.github.com/rygorous/2156668).
template <class D>
HWY_INLINE hn::Vec<D> load_float16(D d, const std::uint16_t* source) {
  const hn::RebindToUnsigned<D> du;
  const auto half = load_u16(d, source);
  const auto magnitude = hn::ShiftLeft<13>(hn::And(half, hn::Set(du, 0x7FFFU)));
  const auto infinity = hn::Set(du, 0x1FU << 23);
  const auto exponent = hn::And(magnitude, hn::Set(du, 0x1FU << 23));
  const auto normal = hn::Add(magnitude, hn::Set(du, 112U << 23));
  // Subnormal: (2^-14 + m * 2^-24) - 2^-14 is exact.
  const auto least_normal = hn::Set(du, 113U << 23);
  const auto subnormal = hn::BitCast(
      du, hn::Sub(hn::BitCast(d, hn::Add(magnitude, least_normal)), hn::BitCast(d, least_normal)));
  const auto quiet = hn::IfThenElseZero(hn::Gt(magnitude, infinity), hn::Set(du, 0x00400000U));
  const auto special = hn::Or(hn::Add(magnitude, hn::Set(du, 224U << 23)), quiet);
  const auto finite = hn::IfThenElse(hn::Eq(exponent, hn::Zero(du)), subnormal, normal);
  const auto bits = hn::IfThenElse(hn::Eq(exponent, infinity), special, finite);
  const auto sign = hn::ShiftLeft<16>(hn::And(half, hn::Set(du, 0x8000U)));
  return float_from_bits(d, hn::Or(bits, sign));
}

template <class D>
HWY_INLINE void store_float16(D d, hn::Vec<D> value, std::uint16_t* destination) {
  const hn::RebindToUnsigned<D> du;
  const auto all = hn::BitCast(du, value);
  const auto magnitude = hn::And(all, hn::Set(du, 0x7FFFFFFFU));
  const auto sign = hn::ShiftRight<16>(hn::Xor(all, magnitude));
  // Adding 0.5 leaves the rounded subnormal in the lowest bits of the sum's mantissa.
  const auto half_one = hn::Set(du, 126U << 23);
  const auto subnormal = hn::Sub(
      hn::BitCast(du, hn::Add(hn::BitCast(d, magnitude), hn::BitCast(d, half_one))), half_one);
  const auto odd = hn::And(hn::ShiftRight<13>(magnitude), hn::Set(du, 1U));
  const auto bias = hn::Set(du, 0xFFFU - (112U << 23));  // modulo 2^32
  const auto normal = hn::ShiftRight<13>(hn::Add(hn::Add(magnitude, bias), odd));
  const auto payload = hn::And(hn::ShiftRight<13>(magnitude), hn::Set(du, 0x3FFU));
  const auto nan = hn::Or(payload, hn::Set(du, 0x7E00U));
  const auto is_nan = hn::Gt(magnitude, hn::Set(du, 0x7F800000U));
  const auto special = hn::IfThenElse(is_nan, nan, hn::Set(du, 0x7C00U));
  const auto is_subnormal = hn::Lt(magnitude, hn::Set(du, 113U << 23));
  const auto is_special = hn::Gt(magnitude, hn::Set(du, (143U << 23) - 1));
  const auto finite = hn::IfThenElse(is_subnormal, subnormal, normal);
  store_u16(d, hn::Or(hn::IfThenElse(is_special, special, finite), sign), destination);
}

#endif

template <class D>
HWY_INLINE hn::Vec<D> load_as(D d, Source source, std::size_t index) {
  if (source.type == DataType::kFloat32) {
    return hn::LoadU(d, reinterpret_cast<const float*>(source.data) + index);
  }
  const auto* lanes = reinterpret_cast<const std::uint16_t*>(source.data) + index;
  if (source.type == DataType::kFloat16) return load_float16(d, lanes);
  return load_bfloat16(d, lanes);
}

template <class D>
HWY_INLINE void store_as(D d, hn::Vec<D> value, DataType type, std::byte* data, std::size_t index) {
  if (type == DataType::kFloat32) {
    hn::StoreU(value, d, reinterpret_cast<float*>(data) + index);
    return;
  }
  auto* lanes = reinterpret_cast<std::uint16_t*>(data) + index;
  if (type == DataType::kFloat16) {
    store_float16(d, value, lanes);
  } else {
    store_bfloat16(d, value, lanes);
  }
}

inline void convert_any(std::byte* dst, DataType dst_type, Source src, std::size_t elements) {
  const hn::ScalableTag<float> d;
  const std::size_t lanes = hn::Lanes(d);
  std::size_t i = 0;
  for (; i + lanes <= elements; i += lanes) store_as(d, load_as(d, src, i), dst_type, dst, i);
  const hn::CappedTag<float, 1> d1;
  for (; i < elements; ++i) store_as(d1, load_as(d1, src, i), dst_type, dst, i);
}

}  // namespace phub::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // PHUB_KERNELS_CONVERT_INL_H
