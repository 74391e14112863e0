// PNG files of each kind, and the PNGs that are written.
#include <cmath>

#include "tests/support/temporary_directory.h"
#include "tests/unit/data/images/decoding.h"
#include "worker/data/images/png_writer.h"

namespace phub::data::test {
namespace {

constexpr int kGrey = 0;
constexpr int kColours = 2;
constexpr int kPalette = 3;
constexpr int kGreyAlpha = 4;
constexpr int kColoursAlpha = 6;

// The value of sample `c` of a pixel, in `bits` bits.
std::uint32_t sample(std::uint32_t x, std::uint32_t y, std::uint32_t c, int bits) {
  const std::uint32_t value = x * 2654435761U + y * 40503U + c * 977U;
  return (value >> 7U) & ((1U << static_cast<unsigned>(bits)) - 1U);
}

// The rows of a file: samples from the highest bit of a byte on.
Bytes rows_of(ImageSize size, std::uint32_t samples, int bits) {
  Bytes rows;
  for (std::uint32_t y = 0; y < size.height; ++y) {
    std::uint32_t byte = 0;
    int used = 0;
    for (std::uint32_t x = 0; x < size.width; ++x) {
      for (std::uint32_t c = 0; c < samples; ++c) {
        const std::uint32_t value = sample(x, y, c, bits);
        if (bits == 16) rows.push_back(static_cast<std::uint8_t>(value >> 8U));
        if (bits >= 8) {
          rows.push_back(static_cast<std::uint8_t>(value));
          continue;
        }
        byte = (byte << static_cast<unsigned>(bits)) | value;
        used += bits;
        if (used == 8) rows.push_back(static_cast<std::uint8_t>(byte));
        if (used == 8) used = 0;
      }
    }
    if (used > 0)
      rows.push_back(static_cast<std::uint8_t>(byte << static_cast<unsigned>(8 - used)));
  }
  return rows;
}

std::uint8_t in_eight_bits(std::uint32_t value, int bits) {
  const double most = std::pow(2.0, bits) - 1;
  return static_cast<std::uint8_t>(std::lround(value * 255.0 / most));
}

// What a pixel's colour must be.
std::vector<std::uint8_t> colour_of(const PngKind& kind, std::uint32_t x, std::uint32_t y) {
  std::vector<std::uint8_t> colour;
  if (kind.colours == kPalette) {
    const std::uint32_t i = sample(x, y, 0, kind.bits);
    return {static_cast<std::uint8_t>(i * 5), static_cast<std::uint8_t>(255 - i),
            static_cast<std::uint8_t>(i * 7)};
  }
  const bool is_grey = kind.colours == kGrey || kind.colours == kGreyAlpha;
  for (std::uint32_t c = 0; c < 3; ++c) {
    colour.push_back(in_eight_bits(sample(x, y, is_grey ? 0 : c, kind.bits), kind.bits));
  }
  return colour;
}

void check_kind(const PngKind& kind, std::uint32_t samples) {
  CAPTURE(kind.colours, kind.bits, kind.is_interlaced);
  const ImageSize size{37, 21};
  const Bytes file = png(size, kind, rows_of(size, samples, kind.bits));
  Decoder decoder;
  const Window window{.left = 3, .top = 5, .width = 30, .height = 14};
  const Pixels colours = decoded(decoder, file, window, 3, {30, 14});
  const Pixels grey = decoded(decoder, file, window, 1, {30, 14});
  for (std::uint32_t y = 0; y < 14; ++y) {
    for (std::uint32_t x = 0; x < 30; ++x) {
      const auto wanted = colour_of(kind, x + 3, y + 5);
      const double light = 0.299 * wanted[0] + 0.587 * wanted[1] + 0.114 * wanted[2];
      const bool is_right = colours.at(x, y, 0) == wanted[0] && colours.at(x, y, 1) == wanted[1] &&
                            colours.at(x, y, 2) == wanted[2] &&
                            std::fabs(grey.at(x, y, 0) - light) < 0.51;
      if (!is_right) FAIL("the pixel at " << x << ", " << y << " is wrong");
    }
  }
}

TEST_CASE("every kind of PNG is decoded, interlaced or not") {
  for (const bool is_interlaced : {false, true}) {
    for (const int bits : {1, 2, 4, 8, 16}) {
      check_kind({.colours = kGrey, .bits = bits, .is_interlaced = is_interlaced}, 1);
      if (bits <= 8) {
        check_kind({.colours = kPalette, .bits = bits, .is_interlaced = is_interlaced}, 1);
      }
      if (bits < 8) continue;
      check_kind({.colours = kColours, .bits = bits, .is_interlaced = is_interlaced}, 3);
      check_kind({.colours = kGreyAlpha, .bits = bits, .is_interlaced = is_interlaced}, 2);
      check_kind({.colours = kColoursAlpha, .bits = bits, .is_interlaced = is_interlaced}, 4);
    }
  }
}

TEST_CASE("the image of an animated PNG is its first") {
  const Pixels image = picture({12, 9}, 3);
  const Bytes file = png(image.size, {.is_animated = true}, image.bytes);
  CHECK(decoded_whole(file, 3).bytes == image.bytes);
}

TEST_CASE("a PNG is resized as the filter says, within one level") {
  const Pixels image = picture({120, 90}, 3);
  const Bytes file = png(image.size, {}, image.bytes);
  const Pixels grey = picture({120, 90}, 1);
  const Bytes grey_file = png(grey.size, {.colours = kGrey}, grey.bytes);
  Decoder decoder;
  const std::vector<Window> windows = {{.width = 120, .height = 90},
                                       {.left = 10, .top = 20, .width = 50, .height = 31},
                                       {.left = 10.25, .top = 3.5, .width = 77.3, .height = 64.8},
                                       {.left = 119.5, .top = 0.1, .width = 0.5, .height = 0.3},
                                       {.left = 7, .top = 80, .width = 1, .height = 10}};
  for (const Window& window : windows) {
    for (const ImageSize out : {ImageSize{1, 1}, ImageSize{50, 31}, ImageSize{64, 64},
                                ImageSize{33, 200}, ImageSize{201, 7}, ImageSize{105, 79}}) {
      CAPTURE(window.left, window.top, window.width, window.height, out.width, out.height);
      const Pixels colours = decoded(decoder, file, window, 3, out);
      CHECK(difference(colours, resized(image, window, out)) <= 1);
      const Pixels greys = decoded(decoder, grey_file, window, 1, out);
      CHECK(difference(greys, resized(grey, window, out)) <= 1);
    }
  }
}

TEST_CASE("an image that becomes hundreds of times smaller is right within one level") {
  const Pixels image = picture({3001, 700}, 3);
  const Bytes file = png(image.size, {}, image.bytes);
  Decoder decoder;
  for (const ImageSize out : {ImageSize{1, 1}, ImageSize{3, 2}, ImageSize{60, 30}}) {
    const Pixels small = decoded(decoder, file, whole(image.size), 3, out);
    CHECK(difference(small, resized(image, whole(image.size), out)) <= 1);
  }
}

TEST_CASE("an image of one colour keeps it, whatever its size becomes") {
  Decoder decoder;
  for (const int level : {0, 1, 127, 254, 255}) {
    const auto byte = static_cast<std::uint8_t>(level);
    const Pixels image = plain({600, 300}, {byte, byte, byte});
    const Bytes file = png(image.size, {}, image.bytes);
    for (const ImageSize out : {ImageSize{1, 1}, ImageSize{3, 5}, ImageSize{224, 224}}) {
      const Window window{.left = 0.7, .top = 1.3, .width = 597.1, .height = 298.2};
      CHECK(difference(decoded(decoder, file, window, 3, out), plain(out, {byte, byte, byte})) <=
            0);
    }
  }
}

TEST_CASE("a written PNG has the pixels that were given") {
  const TemporaryDirectory folder;
  for (const std::uint32_t channels : {1U, 3U}) {
    const Pixels image = picture({45, 31}, channels);
    REQUIRE(write_png(folder.path / "sheet.png", image.size, channels, image.bytes).ok());
    const std::string text = folder.read("sheet.png");
    CHECK(decoded_whole(Bytes(text.begin(), text.end()), channels).bytes == image.bytes);
  }
  // Nothing is left beside it.
  CHECK(std::distance(std::filesystem::directory_iterator(folder.path), {}) == 1);
}

TEST_CASE("a PNG that cannot be written leaves nothing, and the error names the path") {
  const TemporaryDirectory folder;
  const Pixels image = picture({4, 4}, 3);
  const auto path = folder.path / "none" / "sheet.png";
  const Status missing = write_png(path, image.size, 3, image.bytes);
  CHECK_FALSE(missing.ok());
  CHECK_THAT(missing.message(), Catch::Contains(path.string()));
  // A folder has the name already.
  std::filesystem::create_directory(folder.path / "taken");
  folder.write("taken/file", "");
  CHECK_FALSE(write_png(folder.path / "taken", image.size, 3, image.bytes).ok());
  CHECK(std::distance(std::filesystem::directory_iterator(folder.path), {}) == 1);
}

}  // namespace
}  // namespace phub::data::test
