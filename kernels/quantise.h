// Arrays in 8 or 4 bits an element, with a scale for each block of 64.
//
// A block is its scale (fp32), then 64 elements: a byte each, or a half of one, where byte j has
// element j below and element j + 32 above, each plus 8. An element is an integer q, from -127 to
// 127 or from -7 to 7, and stands for q * scale. A last block that is not full is filled with
// zeros. Pure functions; any thread; nothing allocates. Every instruction set gives the bits of the
// scalar specification (quantise_reference.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "common/base/encoding.h"

namespace phub::kernels {

enum class Bits : std::uint8_t { kEight, kFour };
constexpr Bits bits_of(Encoding encoding) {
  return encoding == Encoding::kInt4 ? Bits::kFour : Bits::kEight;
}

inline constexpr std::size_t kQuantisedBlock = 64;  // elements

constexpr std::size_t quantised_block_bytes(Bits bits) {
  return sizeof(float) + (bits == Bits::kEight ? kQuantisedBlock : kQuantisedBlock / 2);
}
constexpr std::size_t quantised_bytes(std::size_t elements, Bits bits) {
  return (elements + kQuantisedBlock - 1) / kQuantisedBlock * quantised_block_bytes(bits);
}

// scale = m * (1 / 127) with the block's largest magnitude m (with four bits 7 in place of 127),
// and q = value * (127 / m), to nearest even. A block below 2^-100 becomes zeros; one with anything
// that is not finite gets a NaN as its scale. REQUIRES: room for quantised_bytes, which may not
// overlap.
void quantise(std::byte* out, std::span<const float> values, Bits bits);

// out[i] += q[i] * scale, rounded twice. Any bytes will do. REQUIRES: quantised_bytes of the array,
// aligned as a float is.
void add_quantised(std::span<float> out, const std::byte* quantised, Bits bits);

}  // namespace phub::kernels
