// How far a step's outputs may be from what they should be, given what its inputs' rounding does.
//
// Of 16-bit buffers a device's result differs from exact arithmetic by its own rounding and by what
// roundings inside do; the second is found by moving every input by a rounding of its type. For the
// host and the device. Pure functions.
#pragma once

#include <cmath>
#include <cstddef>

#include "kernels/cuda/device_code.h"
#include "worker/cuda/lowered/element_type.h"

namespace phub::testing {

// Disturbances are random: two of them, and their largest effect so many times.
inline constexpr int kDisturbances = 2;
inline constexpr double kSafety = 4.0;
// A single element may be so many allowed differences off, and of these few may be further: a mask
// that is worked out again can turn where its argument is nearly 0.
inline constexpr double kElementSafety = 16.0;
inline constexpr std::size_t kOneOutlierIn = 10'000;
inline constexpr std::size_t kOutliersAlways = 2;

// Half a unit in the last place; of fp32 what a few operations come to.
constexpr double rounding_of(nn::cuda::ElementType type) {
  switch (type) {
    case nn::cuda::ElementType::kFloat16:
      return 0x1p-11;
    case nn::cuda::ElementType::kBfloat16:
      return 0x1p-8;
    default:
      return 0x1p-22;
  }
}

// Below this fp16 has fewer digits.
constexpr double least_of(nn::cuda::ElementType type) {
  return type == nn::cuda::ElementType::kFloat16 ? 0x1p-24 : 1e-30;
}

// What is not finite has been told of its step, and is equal to itself after it.
PHUB_HOST_DEVICE inline double difference(float a, float b) {
  if (a == b || (std::isnan(a) && std::isnan(b))) return 0.0;
  return std::abs(double{a} - double{b});
}

// The root mean square that a buffer's difference may have. `moved`: the largest that a disturbance
// has brought; `size`: of what is expected.
constexpr double allowed_difference(nn::cuda::ElementType type, double moved, double size) {
  return kSafety * moved + rounding_of(type) * size + least_of(type);
}

// Whether one element is far off; not a number is.
PHUB_HOST_DEVICE inline bool is_far_off(float found, float expected, double allowed,
                                        double rounding) {
  const double own = 2.0 * rounding * std::abs(double{expected});
  const double off = difference(found, expected);
  return !(off == 0.0 || off <= kElementSafety * allowed + own);
}

constexpr std::size_t outliers_allowed(std::size_t elements) {
  const std::size_t few = elements / kOneOutlierIn;
  return few < kOutliersAlways ? kOutliersAlways : few;
}

// The level of an element of what a maximum is taken of: where two numbers of a window are the
// largest, each is right for cuDNN (pooling of ours takes the first). So none are alike: 64 levels,
// which every type has, in an order that repeats after 8 rows and 8 columns.
PHUB_HOST_DEVICE inline float spread_level(long long n, long long c, long long h, long long w) {
  const long long level = (h % 8 * 8 + w % 8) * 37 + n * 11 + c * 5;
  return static_cast<float>(level % 64 - 32) / 32.0F;
}

}  // namespace phub::testing
