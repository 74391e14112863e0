// JPEG files of each kind: any window of them has the pixels of the whole image.
#include "tests/unit/data/images/decoding.h"

namespace phub::data::test {
namespace {

const std::vector<JpegKind> kKindsWithColours = {
    {.name = "4:2:0"},
    {.name = "4:4:4", .across = 1, .down = 1},
    {.name = "4:2:2", .across = 2, .down = 1},
    {.name = "4:4:0", .across = 1, .down = 2},
    {.name = "4:1:1", .across = 4, .down = 1},
    {.name = "4:1:0", .across = 4, .down = 2},
    {.name = "progressive", .is_progressive = true},
    {.name = "progressive 4:4:4", .across = 1, .down = 1, .is_progressive = true},
    {.name = "arithmetic", .is_arithmetic = true},
    {.name = "arithmetic progressive", .is_progressive = true, .is_arithmetic = true},
    {.name = "RGB", .across = 1, .down = 1, .is_rgb = true},
};

Pixels part_of(const Pixels& image, std::uint32_t left, std::uint32_t top, ImageSize size) {
  Pixels part{.size = size, .channels = image.channels};
  for (std::uint32_t y = 0; y < size.height; ++y) {
    for (std::uint32_t x = 0; x < size.width; ++x) {
      for (std::uint32_t c = 0; c < image.channels; ++c) {
        part.bytes.push_back(image.at(left + x, top + y, c));
      }
    }
  }
  return part;
}

void check_windows(const Bytes& file, std::uint32_t channels) {
  const Pixels image = decoded_by_libjpeg(file, channels);
  Decoder decoder;
  for (const ImageSize size :
       {ImageSize{1, 1}, ImageSize{2, 2}, ImageSize{19, 3}, ImageSize{33, 18}}) {
    for (std::uint32_t top = 0; top + size.height <= image.size.height; top += 5) {
      for (std::uint32_t left = 0; left + size.width <= image.size.width; left += 3) {
        const Window window{.left = static_cast<double>(left),
                            .top = static_cast<double>(top),
                            .width = static_cast<double>(size.width),
                            .height = static_cast<double>(size.height)};
        const Pixels part = decoded(decoder, file, window, channels, size);
        if (part.bytes == part_of(image, left, top, size).bytes) continue;
        CAPTURE(left, top, size.width, size.height, channels);
        FAIL("the window has other pixels than the whole image");
      }
    }
  }
}

TEST_CASE("any window of a JPEG has the pixels of the whole image") {
  for (const JpegKind& kind : kKindsWithColours) {
    INFO(kind.name);
    const Bytes file = jpeg(picture({83, 50}, 3), kind);
    check_windows(file, 3);
    check_windows(file, 1);
  }
}

TEST_CASE("a grey JPEG is grey, and has three equal channels as colours") {
  const Bytes file = jpeg(picture({83, 50}, 1));
  check_windows(file, 1);
  check_windows(file, 3);
}

TEST_CASE("a JPEG narrower than a block is decoded") {
  for (const std::uint32_t width : {1U, 2U, 3U, 7U, 9U}) {
    const Bytes file = jpeg(picture({width, 5}, 3));
    CHECK(decoded_whole(file, 3).bytes == decoded_by_libjpeg(file, 3).bytes);
  }
}

// The image has one colour, whichever way the inks are stored.
TEST_CASE("inks are converted to colours, Adobe's inverted ones too") {
  // 255 of an ink is all of it: half the cyan, no magenta, all the yellow, a fifth of the black.
  const std::vector<std::uint8_t> inks = {128, 0, 255, 51};
  const std::vector<std::uint8_t> inverted = {127, 255, 0, 204};
  const JpegKind fine{.across = 1, .down = 1, .quality = 100};
  JpegKind adobe = fine;
  adobe.has_adobe_inks = true;
  for (const Bytes& file :
       {jpeg(plain({16, 16}, inks), fine), jpeg(plain({16, 16}, inverted), adobe)}) {
    const Pixels image = decoded_whole(file, 3);
    const Pixels wanted = plain({16, 16}, {102, 204, 0});
    CHECK(difference(image, wanted) <= 3);
    const Pixels grey = decoded_whole(file, 1);
    CHECK(difference(grey, plain({16, 16}, {150})) <= 3);
  }
}

TEST_CASE("two channels are no colours, and the error says so") {
  Decoder decoder;
  const Status status = error_of(decoder, jpeg(plain({16, 16}, {1, 2})));
  CHECK(status.code() == Code::kInvalidArgument);
  CHECK_THAT(status.message(), Catch::Contains("the colours of its 2 channels are unknown"));
}

TEST_CASE("twelve bits a sample are refused by name") {
  Bytes file = jpeg(picture({16, 16}, 3));
  // The frame's header: marker, length, precision.
  for (std::size_t i = 0; i + 4 < file.size(); ++i) {
    if (file[i] == 0xFF && file[i + 1] == 0xC0) {
      file[i + 4] = 12;
      break;
    }
  }
  Decoder decoder;
  const Status status = error_of(decoder, file);
  CHECK(status.code() == Code::kInvalidArgument);
  CHECK_THAT(status.message(), Catch::Contains("precision 12"));
}

TEST_CASE("a JPEG that is much larger than the output is shrunk about as the filter does") {
  const Pixels image = picture({320, 240}, 3);
  const Bytes file = jpeg(image, {.across = 1, .down = 1, .quality = 95});
  const Pixels all = decoded_by_libjpeg(file, 3);
  Decoder decoder;
  for (const std::uint32_t divisor : {2U, 3U, 4U, 6U, 8U, 16U}) {
    const ImageSize out{320 / divisor, 240 / divisor};
    const Window window{.left = 16, .top = 8, .width = 300, .height = 225};
    const Pixels shrunk = decoded(decoder, file, window, 3, out);
    const Pixels wanted = resized(all, window, out);
    double sum = 0;
    for (std::size_t i = 0; i < wanted.bytes.size(); ++i) {
      sum += std::abs(int{shrunk.bytes[i]} - int{wanted.bytes[i]});
    }
    CAPTURE(divisor);
    CHECK(sum / static_cast<double>(wanted.bytes.size()) < 4);
  }
}

}  // namespace
}  // namespace phub::data::test
