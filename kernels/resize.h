// The arithmetic of resizing: columns of one row, then rows.
//
// Pure functions; any thread; no allocation. Sums are integers: a row between the passes has 16
// bits an element, 8 of them behind the point. A product with a weight loses its low 16 bits;
// `blend_rows` adds a bias, which is what that takes on average. So every instruction set gives the
// same bits, those of resize_reference.h.
#pragma once

#include <cstddef>
#include <cstdint>

namespace phub::kernels {

// Bytes that may be read behind a row of pixels, and elements that may be written behind one of
// 16 bits.
inline constexpr std::size_t kRowSlackBytes = 16;
inline constexpr std::size_t kRowSlackElements = 64;

struct Columns {
  std::uint32_t outputs = 0;
  std::uint32_t taps = 0;  // pixels that are summed for an output; for colours see taps_of_colours
  // An odd number of outputs has one more in these arrays, which is not used.
  const std::uint32_t* first = nullptr;    // [output]: the first of its pixels
  const std::uint16_t* weights = nullptr;  // colours: [output][tap][4]; grey: [output][tap]
};

// Sums of more pixels than this are those of cpu/resize_exact.h.
inline constexpr std::uint32_t kTapsOfVectors = 64;

// What `taps` products lose on average.
constexpr std::uint16_t bias_of(std::uint32_t taps) {
  return static_cast<std::uint16_t>(taps > kTapsOfVectors ? 0 : taps / 2);
}

// Vectors have two or four pixels: further taps have weights of 0.
constexpr std::uint32_t taps_of_colours(std::uint32_t taps) {
  return taps <= 2 ? 2 : (taps + 3) / 4 * 4;
}

// out[3 * i + c] = sum over t of (row[4 * (first[i] + t) + c] * 256 * weight) / 65536.
// Reads up to kRowSlackBytes behind the row, and writes up to kRowSlackElements behind `out`.
void resample_colours(const std::uint8_t* row, const Columns& columns, std::uint16_t* out);
// The same of one channel, a byte a pixel; in 32 bits, so it needs no bias.
void resample_grey(const std::uint8_t* row, const Columns& columns, std::uint16_t* out);

struct Output {
  std::uint8_t* bytes = nullptr;
  std::size_t elements = 0;
};
// out[i] = (bias + 128 + sum over t of rows[t][i] * weights[t] / 65536) / 256.
// Reads up to kRowSlackElements behind each row.
void blend_rows(const std::uint16_t* const* rows, const std::uint16_t* weights, std::uint32_t taps,
                std::uint16_t bias, Output out);

// out[3 * i + c] = pixels[4 * i + c]. Reads up to kRowSlackBytes behind the row.
void copy_colours(const std::uint8_t* pixels, std::size_t count, std::uint8_t* out);
// out[4 * i + c] = pixels[3 * i + c], and 0 for the fourth. Reads nothing behind the row.
void spread_colours(const std::uint8_t* pixels, std::size_t count, std::uint8_t* out);

}  // namespace phub::kernels
