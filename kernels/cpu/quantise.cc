#include "kernels/quantise.h"

#include <cstring>
#include <limits>

// This file is compiled once for every instruction set by including itself.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/quantise.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace phub::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Floats = hn::CappedTag<float, kQuantisedBlock>;
using Integers = hn::RebindToSigned<Floats>;
using Bytes = hn::Rebind<std::int8_t, Floats>;

constexpr std::size_t kHalf = kQuantisedBlock / 2;

// As an integer tells, NaNs are the largest.
inline std::int32_t largest_magnitude(const float* values) {
  const Floats d;
  const Integers di;
  auto largest = hn::Zero(di);
  for (std::size_t i = 0; i < kQuantisedBlock; i += hn::Lanes(d)) {
    largest = hn::Max(largest, hn::BitCast(di, hn::Abs(hn::LoadU(d, values + i))));
  }
  return hn::GetLane(hn::MaxOfLanes(di, largest));
}

// Returns the scale.
inline float quantise_block(const float* values, float most, std::int8_t* q) {
  const Floats d;
  const std::int32_t bits = largest_magnitude(values);
  float largest = 0.0F;
  std::memcpy(&largest, &bits, sizeof(largest));
  const bool is_finite = bits < 0x7F800000;
  if (!is_finite || largest < 0x1p-100F) {
    std::memset(q, 0, kQuantisedBlock);
    return is_finite ? 0.0F : std::numeric_limits<float>::quiet_NaN();
  }
  const auto up = hn::Set(d, most / largest);
  const auto bound = hn::Set(Integers(), static_cast<std::int32_t>(most));
  for (std::size_t i = 0; i < kQuantisedBlock; i += hn::Lanes(d)) {
    const auto nearest = hn::NearestInt(hn::Mul(hn::LoadU(d, values + i), up));
    const auto bounded = hn::Max(hn::Min(nearest, bound), hn::Neg(bound));
    hn::StoreU(hn::DemoteTo(Bytes(), bounded), Bytes(), q + i);
  }
  return largest * (1.0F / most);
}

void quantise_any(std::byte* out, std::span<const float> values, Bits bits) {
  const float most = bits == Bits::kEight ? 127.0F : 7.0F;
  HWY_ALIGN std::int8_t q[kQuantisedBlock];
  HWY_ALIGN float last[kQuantisedBlock] = {};
  for (std::size_t begin = 0; begin < values.size(); begin += kQuantisedBlock) {
    const float* block = values.data() + begin;
    if (values.size() - begin < kQuantisedBlock) {
      std::memcpy(last, block, (values.size() - begin) * sizeof(float));
      block = last;
    }
    const float scale = quantise_block(block, most, q);
    std::memcpy(out, &scale, sizeof(scale));
    std::byte* const elements = out + sizeof(scale);
    if (bits == Bits::kEight) {
      std::memcpy(elements, q, kQuantisedBlock);
    } else {
      for (std::size_t i = 0; i < kHalf; ++i) {
        const auto low = static_cast<unsigned>(q[i] + 8);
        const auto high = static_cast<unsigned>(q[i + kHalf] + 8);
        elements[i] = static_cast<std::byte>(low | (high << 4U));
      }
    }
    out += quantised_block_bytes(bits);
  }
}

// q[i] of a block, whichever bits it has.
inline void unpack(const std::byte* elements, Bits bits, std::int8_t* q) {
  if (bits == Bits::kEight) {
    std::memcpy(q, elements, kQuantisedBlock);
    return;
  }
  for (std::size_t i = 0; i < kHalf; ++i) {
    const auto both = static_cast<unsigned>(elements[i]);
    q[i] = static_cast<std::int8_t>(static_cast<int>(both & 15U) - 8);
    q[i + kHalf] = static_cast<std::int8_t>(static_cast<int>(both >> 4U) - 8);
  }
}

void add_quantised_any(std::span<float> out, const std::byte* quantised, Bits bits) {
  const Floats d;
  HWY_ALIGN std::int8_t q[kQuantisedBlock];
  for (std::size_t begin = 0; begin < out.size(); begin += kQuantisedBlock) {
    float scale = 0.0F;
    std::memcpy(&scale, quantised, sizeof(scale));
    unpack(quantised + sizeof(scale), bits, q);
    const std::size_t count = HWY_MIN(kQuantisedBlock, out.size() - begin);
    float* const sums = out.data() + begin;
    std::size_t i = 0;
    for (; i + hn::Lanes(d) <= count; i += hn::Lanes(d)) {
      const auto integers = hn::PromoteTo(Integers(), hn::LoadU(Bytes(), q + i));
      const auto added = hn::Mul(hn::ConvertTo(d, integers), hn::Set(d, scale));
      hn::StoreU(hn::Add(hn::LoadU(d, sums + i), added), d, sums + i);
    }
    for (; i < count; ++i) {
      const float added = static_cast<float>(q[i]) * scale;
      sums[i] += added;
    }
    quantised += quantised_block_bytes(bits);
  }
}

}  // namespace phub::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace phub::kernels {

HWY_EXPORT(quantise_any);
HWY_EXPORT(add_quantised_any);

void quantise(std::byte* out, std::span<const float> values, Bits bits) {
  HWY_DYNAMIC_DISPATCH(quantise_any)(out, values, bits);
}

void add_quantised(std::span<float> out, const std::byte* quantised, Bits bits) {
  HWY_DYNAMIC_DISPATCH(add_quantised_any)(out, quantised, bits);
}

}  // namespace phub::kernels
#endif  // HWY_ONCE
