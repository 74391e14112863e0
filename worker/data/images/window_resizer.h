// Resizes a window of an image that lies decoded in memory. One owner, one thread.
//
// The pixels are those of Decoder::decode for the same window, if that does not shrink the image.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "worker/data/images/geometry.h"
#include "worker/data/images/reader.h"
#include "worker/data/images/resizer.h"

namespace phub::data {

class WindowResizer {
 public:
  // The rows of the image that a window touches.
  static PixelRange rows_of(const Window& window, ImageSize image) {
    return PixelRange::touched_by(window.top, window.height, image.height);
  }

  // `rows`: those of rows_of, [row][column][channel], image.width columns each. Writes `out`
  // pixels, as Decoder::decode does. REQUIRES: channels is 1 or 3, the window is within the image,
  // and both spans have the sizes that follow.
  void resize(std::span<const std::uint8_t> rows, ImageSize image, const Window& window,
              std::uint32_t channels, ImageSize out, std::span<std::uint8_t> pixels);

 private:
  Resizer resizer_;
  std::vector<std::uint8_t> row_;  // in the form of Reader::read
};

}  // namespace phub::data
