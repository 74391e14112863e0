// Sizes and parts of images, and how large an image may be. Values; any thread.
#pragma once

#include <cstdint>

namespace phub::data {

struct ImageSize {
  std::uint32_t width = 0;
  std::uint32_t height = 0;

  std::uint64_t pixels() const { return std::uint64_t{width} * height; }
};

// A part of an image, in pixels of the whole image. Column x reaches from x to x + 1. Fractions are
// allowed.
struct Window {
  double left = 0;
  double top = 0;
  double width = 0;
  double height = 0;
};

// An image is refused if its header asks for more. Memory follows from it: a progressive JPEG takes
// up to 8 bytes a pixel while it is decoded, an interlaced PNG 4. Others take a few rows.
struct DecodeLimits {
  std::uint64_t pixels_max = std::uint64_t{1} << 28U;
};

}  // namespace phub::data
