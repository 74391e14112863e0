// Conversions of a row's colours, in place. Pure functions; any thread.
#pragma once

#include <cstddef>
#include <cstdint>

namespace phub::data {

// The brightness of JPEG's YCbCr (ITU-R BT.601), which Pillow's "L" has too: 16 bits of fraction.
inline std::uint8_t grey_of(std::uint32_t red, std::uint32_t green, std::uint32_t blue) {
  return static_cast<std::uint8_t>((red * 19595 + green * 38470 + blue * 7471 + 32768) >> 16U);
}

// `from` has 4 bytes a pixel, and `to` 1. They may be the same row.
inline void colours_to_grey(const std::uint8_t* from, std::size_t pixels, std::uint8_t* to) {
  for (std::size_t i = 0; i < pixels; ++i, from += 4) to[i] = grey_of(from[0], from[1], from[2]);
}

// Cyan, magenta, yellow and black become red, green, blue and any, as ink that lets light through:
// red = (255 - cyan) * (255 - black) / 255. Inverted inks are stored as 255 minus their amount.
inline void inks_to_colours(std::uint8_t* row, std::size_t pixels, bool are_inverted) {
  const unsigned flip = are_inverted ? 0 : 255;
  for (std::size_t i = 0; i < pixels; ++i, row += 4) {
    const unsigned white = row[3] ^ flip;
    for (int c = 0; c < 3; ++c) {
      row[c] = static_cast<std::uint8_t>(((row[c] ^ flip) * white + 127) / 255);
    }
  }
}

}  // namespace phub::data
