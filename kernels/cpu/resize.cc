#include "kernels/resize.h"

#include <cstring>

#include "kernels/cpu/resize_exact.h"
#include "kernels/resize_reference.h"

// This file is compiled once for every instruction set by including itself.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/resize.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace phub::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

#if HWY_TARGET == HWY_SCALAR
void resample_colours_any(const std::uint8_t* row, const Columns& columns, std::uint16_t* out) {
  reference::resample_colours(row, columns, out);
}

void blend_rows_any(const std::uint16_t* const* rows, const std::uint16_t* weights,
                    std::uint32_t taps, std::uint16_t bias, Output out) {
  reference::blend_rows(rows, weights, taps, bias, out);
}

void copy_colours_any(const std::uint8_t* pixels, std::size_t count, std::uint8_t* out) {
  reference::copy_colours(pixels, count, out);
}

void spread_colours_any(const std::uint8_t* pixels, std::size_t count, std::uint8_t* out) {
  reference::spread_colours(pixels, count, out);
}
#else

using Pair = hn::FixedTag<std::uint16_t, 8>;  // two pixels of four channels
using Quad = hn::CappedTag<std::uint16_t, 16>;
using Shorts = hn::ScalableTag<std::uint16_t>;

// The channels of two pixels times 256.
inline hn::Vec<Pair> load_pair(const std::uint8_t* pixels) {
  const hn::FixedTag<std::uint8_t, 16> bytes;
  const hn::Half<decltype(bytes)> half;
  const auto loaded = hn::ZeroExtendVector(bytes, hn::LoadU(half, pixels));
  return hn::BitCast(Pair(), hn::InterleaveLower(bytes, hn::Zero(bytes), loaded));
}

#if HWY_MAX_BYTES >= 32
// The channels of four pixels times 256.
inline hn::Vec<Quad> load_quad(const std::uint8_t* pixels) {
  const hn::Repartition<std::uint8_t, Quad> bytes;
  constexpr std::uint8_t kNone = 0x80;
  HWY_ALIGN static constexpr std::uint8_t kSpread[32] = {
      kNone, 0, kNone, 1, kNone, 2,  kNone, 3,  kNone, 4,  kNone, 5,  kNone, 6,  kNone, 7,
      kNone, 8, kNone, 9, kNone, 10, kNone, 11, kNone, 12, kNone, 13, kNone, 14, kNone, 15};
  const auto both = hn::LoadDup128(bytes, pixels);
  return hn::BitCast(Quad(), hn::TableLookupBytesOr0(both, hn::Load(bytes, kSpread)));
}

// The weighted sums of the pixels that begin at `a` and at `b`. `taps` is 2, or a multiple of 4.
inline hn::Vec<Pair> sums_of(const std::uint8_t* a, const std::uint8_t* b,
                             const std::uint16_t* weights, std::uint32_t taps) {
  const Quad quad;
  const hn::Repartition<std::uint64_t, Quad> pixels;
  const std::uint16_t* const weights_b = weights + std::size_t{4} * taps;
  auto sum_a = hn::MulHigh(load_quad(a), hn::LoadU(quad, weights));
  auto sum_b = hn::MulHigh(load_quad(b), hn::LoadU(quad, weights_b));
  for (std::size_t t = 4; t < taps; t += 4) {
    sum_a = hn::Add(sum_a, hn::MulHigh(load_quad(a + 4 * t), hn::LoadU(quad, weights + 4 * t)));
    sum_b = hn::Add(sum_b, hn::MulHigh(load_quad(b + 4 * t), hn::LoadU(quad, weights_b + 4 * t)));
  }
  const auto a64 = hn::BitCast(pixels, sum_a);
  const auto b64 = hn::BitCast(pixels, sum_b);
  const auto sums = hn::Add(hn::BitCast(quad, hn::InterleaveLower(pixels, a64, b64)),
                            hn::BitCast(quad, hn::InterleaveUpper(pixels, a64, b64)));
  return hn::Add(hn::LowerHalf(Pair(), sums), hn::UpperHalf(Pair(), sums));
}
#endif

// The same, of any even number of taps.
inline hn::Vec<Pair> sums_of_pairs(const std::uint8_t* a, const std::uint8_t* b,
                                   const std::uint16_t* weights, std::uint32_t taps) {
  const Pair pair;
  const std::uint16_t* const weights_b = weights + std::size_t{4} * taps;
  auto sum_a = hn::MulHigh(load_pair(a), hn::LoadU(pair, weights));
  auto sum_b = hn::MulHigh(load_pair(b), hn::LoadU(pair, weights_b));
  for (std::size_t t = 2; t < taps; t += 2) {
    sum_a = hn::Add(sum_a, hn::MulHigh(load_pair(a + 4 * t), hn::LoadU(pair, weights + 4 * t)));
    sum_b = hn::Add(sum_b, hn::MulHigh(load_pair(b + 4 * t), hn::LoadU(pair, weights_b + 4 * t)));
  }
  return hn::Add(hn::ConcatLowerLower(pair, sum_b, sum_a),
                 hn::ConcatUpperUpper(pair, sum_b, sum_a));
}

// Two outputs at a time, of 3 channels each: the fourth is left out.
template <std::uint32_t kTaps>
inline void resample_taps(const std::uint8_t* row, const Columns& columns, std::uint16_t* out) {
  const Pair pair;
  const hn::Repartition<std::uint8_t, Pair> bytes;
  HWY_ALIGN static constexpr std::uint8_t kColours[16] = {0,  1,  2,  3,  4,    5,    8,    9,
                                                          10, 11, 12, 13, 0x80, 0x80, 0x80, 0x80};
  const auto colours = hn::Load(bytes, kColours);
  const std::uint32_t taps = kTaps == 0 ? columns.taps : kTaps;
  // Copies, which no store to `out` can be suspected to change.
  const std::uint32_t* const first = columns.first;
  const std::uint16_t* weights = columns.weights;
  const std::size_t outputs = columns.outputs;
  for (std::size_t i = 0; i < outputs; i += 2, out += 6, weights += std::size_t{8} * taps) {
    const std::uint8_t* const a = row + std::size_t{4} * first[i];
    const std::uint8_t* const b = row + std::size_t{4} * first[i + 1];
#if HWY_MAX_BYTES >= 32
    const auto sums =
        kTaps == 2 ? sums_of_pairs(a, b, weights, taps) : sums_of(a, b, weights, taps);
#else
    const auto sums = sums_of_pairs(a, b, weights, taps);
#endif
    const auto packed = hn::TableLookupBytesOr0(hn::BitCast(bytes, sums), colours);
    hn::StoreU(hn::BitCast(pair, packed), pair, out);
  }
}

void resample_colours_any(const std::uint8_t* row, const Columns& columns, std::uint16_t* out) {
  if (columns.taps == 2) return resample_taps<2>(row, columns, out);
  if (columns.taps == 4) return resample_taps<4>(row, columns, out);
  resample_taps<0>(row, columns, out);
}

template <std::uint32_t kTaps>
inline void blend_taps(const std::uint16_t* const* rows, const std::uint16_t* weights,
                       std::uint32_t taps_any, std::uint16_t bias, Output out) {
  const Shorts d;
  const hn::Rebind<std::uint8_t, Shorts> bytes;
  const std::uint32_t taps = kTaps == 0 ? taps_any : kTaps;
  const auto half = hn::Set(d, static_cast<std::uint16_t>(bias + 128));
  const std::uint32_t last_tap = taps - 1;
  const std::uint16_t* const row_a = rows[0];
  const std::uint16_t* const row_b = rows[last_tap / 2];
  const std::uint16_t* const row_c = rows[last_tap];
  const auto weight_a = hn::Set(d, weights[0]);
  const auto weight_b = hn::Set(d, weights[last_tap / 2]);
  const auto weight_c = hn::Set(d, weights[last_tap]);
  const std::size_t lanes = hn::Lanes(d);
  const std::size_t elements = out.elements;
  for (std::size_t i = 0; i < elements; i += lanes) {
    auto sum = half;
    if constexpr (kTaps == 0) {
      for (std::uint32_t t = 0; t < taps; ++t) {
        sum = hn::Add(sum, hn::MulHigh(hn::LoadU(d, rows[t] + i), hn::Set(d, weights[t])));
      }
    } else {
      sum = hn::Add(sum, hn::MulHigh(hn::LoadU(d, row_a + i), weight_a));
      if (kTaps == 3) sum = hn::Add(sum, hn::MulHigh(hn::LoadU(d, row_b + i), weight_b));
      sum = hn::Add(sum, hn::MulHigh(hn::LoadU(d, row_c + i), weight_c));
    }
    const auto whole = hn::BitCast(hn::RebindToSigned<Shorts>(), hn::ShiftRight<8>(sum));
    const auto rounded = hn::DemoteTo(bytes, whole);
    if (i + lanes <= elements) {
      hn::StoreU(rounded, bytes, out.bytes + i);
    } else {
      HWY_ALIGN std::uint8_t last[hn::MaxLanes(Shorts())];
      hn::Store(rounded, bytes, last);
      std::memcpy(out.bytes + i, last, elements - i);
    }
  }
}

void blend_rows_any(const std::uint16_t* const* rows, const std::uint16_t* weights,
                    std::uint32_t taps, std::uint16_t bias, Output out) {
  if (taps == 2) return blend_taps<2>(rows, weights, taps, bias, out);
  if (taps == 3) return blend_taps<3>(rows, weights, taps, bias, out);
  blend_taps<0>(rows, weights, taps, bias, out);
}

// Four pixels at a time. What is written behind them the next ones cover.
void copy_colours_any(const std::uint8_t* pixels, std::size_t count, std::uint8_t* out) {
  const hn::FixedTag<std::uint8_t, 16> bytes;
  HWY_ALIGN static constexpr std::uint8_t kColours[16] = {0,  1,  2,  4,  5,    6,    8,    9,
                                                          10, 12, 13, 14, 0x80, 0x80, 0x80, 0x80};
  const auto colours = hn::Load(bytes, kColours);
  std::size_t i = 0;
  for (; i + 6 <= count; i += 4) {
    const auto four = hn::LoadU(bytes, pixels + 4 * i);
    hn::StoreU(hn::TableLookupBytesOr0(four, colours), bytes, out + 3 * i);
  }
  reference::copy_colours(pixels + 4 * i, count - i, out + 3 * i);
}

// Four pixels at a time, of which 16 bytes are read.
void spread_colours_any(const std::uint8_t* pixels, std::size_t count, std::uint8_t* out) {
  const hn::FixedTag<std::uint8_t, 16> bytes;
  HWY_ALIGN static constexpr std::uint8_t kColours[16] = {0, 1, 2, 0x80, 3, 4,  5,  0x80,
                                                          6, 7, 8, 0x80, 9, 10, 11, 0x80};
  const auto colours = hn::Load(bytes, kColours);
  std::size_t i = 0;
  for (; i + 6 <= count; i += 4) {
    const auto four = hn::LoadU(bytes, pixels + 3 * i);
    hn::StoreU(hn::TableLookupBytesOr0(four, colours), bytes, out + 4 * i);
  }
  reference::spread_colours(pixels + 3 * i, count - i, out + 4 * i);
}
#endif  // HWY_TARGET

}  // namespace phub::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace phub::kernels {

HWY_EXPORT(resample_colours_any);
HWY_EXPORT(blend_rows_any);
HWY_EXPORT(copy_colours_any);
HWY_EXPORT(spread_colours_any);

void resample_colours(const std::uint8_t* row, const Columns& columns, std::uint16_t* out) {
  if (columns.taps > kTapsOfVectors) return exact::resample(row, columns, 4, 3, out);
  HWY_DYNAMIC_DISPATCH(resample_colours_any)(row, columns, out);
}

void blend_rows(const std::uint16_t* const* rows, const std::uint16_t* weights, std::uint32_t taps,
                std::uint16_t bias, Output out) {
  if (taps > kTapsOfVectors) return exact::blend_rows(rows, weights, taps, bias, out);
  HWY_DYNAMIC_DISPATCH(blend_rows_any)(rows, weights, taps, bias, out);
}

void copy_colours(const std::uint8_t* pixels, std::size_t count, std::uint8_t* out) {
  HWY_DYNAMIC_DISPATCH(copy_colours_any)(pixels, count, out);
}

void spread_colours(const std::uint8_t* pixels, std::size_t count, std::uint8_t* out) {
  HWY_DYNAMIC_DISPATCH(spread_colours_any)(pixels, count, out);
}

void resample_grey(const std::uint8_t* row, const Columns& columns, std::uint16_t* out) {
  exact::resample(row, columns, 1, 1, out);
}

}  // namespace phub::kernels
#endif  // HWY_ONCE
