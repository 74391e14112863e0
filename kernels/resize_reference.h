// The scalar specification of resize.h, which states the formulas. Tests compare with it.
#pragma once

#include "kernels/resize.h"

namespace phub::kernels::reference {

constexpr std::uint32_t product(std::uint32_t value, std::uint16_t weight) {
  return (value * weight) >> 16U;
}

inline void resample_colours(const std::uint8_t* row, const Columns& columns, std::uint16_t* out) {
  for (std::uint32_t i = 0; i < columns.outputs; ++i) {
    for (std::uint32_t c = 0; c < 3; ++c) {
      std::uint32_t sum = 0;
      for (std::uint32_t t = 0; t < columns.taps; ++t) {
        const std::uint32_t value = row[4 * (columns.first[i] + t) + c];
        sum += product(value << 8U, columns.weights[4 * (i * columns.taps + t)]);
      }
      out[3 * i + c] = static_cast<std::uint16_t>(sum);
    }
  }
}

inline void blend_rows(const std::uint16_t* const* rows, const std::uint16_t* weights,
                       std::uint32_t taps, std::uint16_t bias, Output out) {
  for (std::size_t i = 0; i < out.elements; ++i) {
    std::uint32_t sum = bias + 128U;
    for (std::uint32_t t = 0; t < taps; ++t) sum += product(rows[t][i], weights[t]);
    out.bytes[i] = static_cast<std::uint8_t>(sum >> 8U);
  }
}

inline void copy_colours(const std::uint8_t* pixels, std::size_t count, std::uint8_t* out) {
  for (std::size_t i = 0; i < count; ++i, pixels += 4, out += 3) {
    out[0] = pixels[0];
    out[1] = pixels[1];
    out[2] = pixels[2];
  }
}

inline void spread_colours(const std::uint8_t* pixels, std::size_t count, std::uint8_t* out) {
  for (std::size_t i = 0; i < count; ++i, pixels += 3, out += 4) {
    out[0] = pixels[0];
    out[1] = pixels[1];
    out[2] = pixels[2];
    out[3] = 0;
  }
}

}  // namespace phub::kernels::reference
