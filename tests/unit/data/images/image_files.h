// Images and their files, which tests make with libjpeg and libpng.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "worker/data/images/geometry.h"

namespace phub::data::test {

using Bytes = std::vector<std::uint8_t>;

struct Pixels {
  ImageSize size;
  std::uint32_t channels = 0;
  Bytes bytes{};  // [row][column][channel]

  std::uint8_t at(std::uint32_t x, std::uint32_t y, std::uint32_t c) const {
    return bytes[(std::size_t{y} * size.width + x) * channels + c];
  }
};

// Gradients, edges and a little noise, from a fixed seed.
Pixels picture(ImageSize size, std::uint32_t channels);
Pixels plain(ImageSize size, std::vector<std::uint8_t> colour);

struct JpegKind {
  std::string name{};
  int across = 2;  // pixels that one sample of chroma covers
  int down = 2;
  bool is_progressive = false;
  bool is_arithmetic = false;
  bool has_adobe_inks = false;  // 4 channels: with Adobe's marker, so inverted
  bool is_rgb = false;          // 3 channels that are no YCbCr
  std::size_t profile_bytes = 0;
  int scans_more = 0;  // refinements of one bit that change nothing: progressive only
  int quality = 90;
};
Bytes jpeg(const Pixels& pixels, const JpegKind& kind = {});
// The whole image, as libjpeg decodes it by itself.
Pixels decoded_by_libjpeg(const Bytes& file, std::uint32_t channels);

struct PngKind {
  std::string name{};
  int colours = 2;  // libpng's colour type
  int bits = 8;
  bool is_interlaced = false;
  std::size_t text_bytes = 0;
  bool is_animated = false;  // with a second image that is damaged
};
// `rows` are as PNG has them: bits, not bytes, of a pixel with fewer than 8. A palette is
// (i * 5, 255 - i, i * 7).
Bytes png(ImageSize size, const PngKind& kind, const Bytes& rows);

// The filter of triangle_filter.h in double, without any rounding but the last.
Pixels resized(const Pixels& pixels, const Window& window, ImageSize out);
// The largest difference of two images of one shape.
int difference(const Pixels& a, const Pixels& b);

}  // namespace phub::data::test
