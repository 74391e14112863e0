// What the selectors of kernels/sparse.h have in common: a cut through the magnitudes, and the
// digits that they are counted by.
#pragma once

#include <array>
#include <cstdint>

namespace phub::kernels {

inline constexpr std::uint32_t kMagnitudeMask = 0x7FFFFFFFU;

// Takes all from `sure` on, and of those from `floor` on and below it, by index, `run` of them from
// number `begin` on.
struct Cut {
  std::uint32_t sure = 0;
  std::uint32_t floor = 0;
  std::uint64_t begin = 0;
  std::uint64_t run = 0;
};

// A magnitude in three digits: the exponent with three bits of the mantissa, then ten bits each.
inline constexpr std::array<unsigned, 3> kDigitShifts = {20, 10, 0};
inline constexpr std::uint32_t kFirstDigits = 1U << 11;
inline constexpr std::uint32_t kNextDigits = 1U << 10;

struct FirstDigits {
  static constexpr std::size_t kRows = 4;  // the first-level cache holds them
  std::array<std::array<std::uint32_t, kFirstDigits>, kRows> rows = {};
};

}  // namespace phub::kernels
