// The sums of resize.h where an output has more than kTapsOfVectors pixels: in 32 bits.
//
// The vectors' 16 bits lose up to one unit with each product. Of hundreds of small weights that
// becomes visible, so strong reductions take these slower loops.
#pragma once

#include "kernels/resize.h"

namespace phub::kernels::exact {

// `pixel_bytes` bytes a pixel and copies of its weight, of which the first `channels` are resized.
inline void resample(const std::uint8_t* row, const Columns& columns, std::size_t pixel_bytes,
                     std::size_t channels, std::uint16_t* out) {
  const std::uint16_t* weights = columns.weights;
  for (std::size_t i = 0; i < columns.outputs; ++i, weights += columns.taps * pixel_bytes) {
    const std::uint8_t* const pixels = row + pixel_bytes * columns.first[i];
    for (std::size_t c = 0; c < channels; ++c) {
      std::uint32_t sum = 128;
      for (std::size_t t = 0; t < columns.taps; ++t) {
        sum += std::uint32_t{pixels[t * pixel_bytes + c]} * weights[t * pixel_bytes];
      }
      out[i * channels + c] = static_cast<std::uint16_t>(sum >> 8U);
    }
  }
}

inline void blend_rows(const std::uint16_t* const* rows, const std::uint16_t* weights,
                       std::uint32_t taps, std::uint16_t bias, Output out) {
  for (std::size_t i = 0; i < out.elements; ++i) {
    std::uint32_t sum = (bias * 256U + 128U) << 16U;
    for (std::uint32_t t = 0; t < taps; ++t) sum += std::uint32_t{rows[t][i]} * weights[t];
    out.bytes[i] = static_cast<std::uint8_t>(sum >> 24U);
  }
}

}  // namespace phub::kernels::exact
