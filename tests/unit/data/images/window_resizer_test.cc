// A window of decoded pixels is what a decoder gives of the file.
#include "worker/data/images/window_resizer.h"

#include <algorithm>
#include <random>

#include "tests/unit/data/images/decoding.h"

namespace phub::data::test {
namespace {

Bytes resized_window(WindowResizer& resizer, const Pixels& image, const Window& window,
                     ImageSize out) {
  const PixelRange rows = WindowResizer::rows_of(window, image.size);
  const std::size_t row_bytes = std::size_t{image.size.width} * image.channels;
  Bytes pixels(out.pixels() * image.channels, 99);
  resizer.resize(std::span(image.bytes).subspan(rows.begin * row_bytes, rows.count() * row_bytes),
                 image.size, window, image.channels, out, pixels);
  return pixels;
}

TEST_CASE("windows of pixels in memory are those that the decoder gives of the file") {
  std::mt19937 generator(5);
  const auto below = [&](std::uint32_t bound) {
    return static_cast<std::uint32_t>(generator() % bound);
  };
  Decoder decoder;
  WindowResizer resizer;
  const std::uint32_t channels = GENERATE(1U, 3U);
  for (const ImageSize size : {ImageSize{1, 1}, ImageSize{5, 3}, ImageSize{97, 61}}) {
    const Bytes file = jpeg(picture(size, 3));
    const Pixels image = decoded_whole(file, channels);
    for (int i = 0; i < 200; ++i) {
      const double width = 1 + below(size.width), height = 1 + below(size.height);
      const Window window{.left = std::min<double>(below(size.width), size.width - width),
                          .top = std::min<double>(below(size.height), size.height - height),
                          .width = width,
                          .height = height};
      // Not half as large as the window: then the decoder would shrink the image.
      const ImageSize out{static_cast<std::uint32_t>(width) / 2 + 1 + below(40),
                          static_cast<std::uint32_t>(height) / 2 + 1 + below(40)};
      if (width > 1.9 * out.width && height > 1.9 * out.height) continue;
      CAPTURE(size.width, size.height, window.left, window.top, width, height, out.width,
              out.height);
      REQUIRE(resized_window(resizer, image, window, out) ==
              decoded(decoder, file, window, channels, out).bytes);
    }
    const Window middle{.left = 0.25 * size.width,
                        .top = 0.125 * size.height,
                        .width = 0.5 * size.width,
                        .height = 0.75 * size.height};
    CHECK(resized_window(resizer, image, middle, size) ==
          decoded(decoder, file, middle, channels, size).bytes);
  }
}

}  // namespace
}  // namespace phub::data::test
