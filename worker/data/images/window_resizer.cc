#include "worker/data/images/window_resizer.h"

#include <cstring>

#include "common/base/check.h"
#include "kernels/resize.h"

namespace phub::data {

void WindowResizer::resize(std::span<const std::uint8_t> rows, ImageSize image,
                           const Window& window, std::uint32_t channels, ImageSize out,
                           std::span<std::uint8_t> pixels) {
  const PixelRange down = rows_of(window, image);
  const PixelRange across = PixelRange::touched_by(window.left, window.width, image.width);
  const std::size_t row_bytes = std::size_t{image.width} * channels;
  PHUB_CHECK(rows.size() == row_bytes * down.count() && pixels.size() == out.pixels() * channels,
             "the pixels do not have the sizes that are asked for");
  resizer_.start({.columns = across.count(),
                  .rows = down.count(),
                  .window = {.left = window.left - across.begin,
                             .top = window.top - down.begin,
                             .width = window.width,
                             .height = window.height}},
                 channels, out, pixels);
  row_.resize(across.count() * bytes_of_pixel(channels) + kernels::kRowSlackBytes);
  const std::uint8_t* from = rows.data() + std::size_t{across.begin} * channels;
  for (std::uint32_t row = 0; row < down.count(); ++row, from += row_bytes) {
    if (channels == 3) {
      kernels::spread_colours(from, across.count(), row_.data());
    } else {
      std::memcpy(row_.data(), from, across.count());
    }
    resizer_.add_row(row_.data());
  }
}

}  // namespace phub::data
