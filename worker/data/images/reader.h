// What reads the rows of one kind of file. One owner, one thread.
//
// The order is open, start, read until the last row, close; close may come at any time. `file` must
// stay until then. Errors are those of Decoder, and a reader can open the next file after one.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>

#include "common/base/status.h"
#include "worker/data/images/geometry.h"

namespace phub::data {

// The pixels that an interval touches: [begin, end).
struct PixelRange {
  std::uint32_t begin = 0;
  std::uint32_t end = 0;

  std::uint32_t count() const { return end - begin; }
  static PixelRange touched_by(double begin, double length, std::uint32_t pixels) {
    const double last = std::fmin(std::ceil(begin + length), pixels);
    const auto first = static_cast<std::uint32_t>(std::fmin(begin, last - 1));
    return {first, static_cast<std::uint32_t>(last)};
  }
};

struct Wanted {
  Window window;  // within the image, with a width and a height
  std::uint32_t channels = 0;
  ImageSize out;
};

// The rows that a reader gives. It may have shrunk the image, and may give some columns more than
// the window touches.
struct RowPart {
  std::uint32_t columns = 0;
  std::uint32_t rows = 0;
  Window window;  // in pixels of this part
};

class Reader {
 public:
  virtual ~Reader() = default;

  virtual Result<ImageSize> open(std::span<const std::uint8_t> file) = 0;
  virtual Result<RowPart> start(const Wanted& wanted) = 0;
  // The next `count` rows. A row begins every `stride` bytes and has 4 bytes a pixel for 3 channels
  // (red, green, blue, any), and 1 for 1. What is behind them in the row is undefined.
  // REQUIRES: stride >= 4 * columns; `count` rows are left.
  virtual Status read(std::uint8_t* rows, std::size_t stride, std::uint32_t count) = 0;
  // Frees the memory of this image.
  virtual void close() = 0;
};

}  // namespace phub::data
