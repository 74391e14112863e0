// Files that are damaged or lie: an error that says what is wrong, and no more memory than allowed.
#include <sys/resource.h>

#include <random>

#include "tests/unit/data/images/decoding.h"

namespace phub::data::test {
namespace {

Bytes png_of(const Pixels& image, PngKind kind = {}) { return png(image.size, kind, image.bytes); }

void put_number(Bytes& file, std::size_t at, std::uint32_t value, int bytes) {
  for (int i = bytes - 1; i >= 0; --i, value >>= 8U) {
    file[at + static_cast<std::size_t>(i)] = static_cast<std::uint8_t>(value);
  }
}

// The bytes behind the marker and the length of a JPEG's first marker of this kind.
std::size_t behind_marker(const Bytes& file, std::uint8_t marker) {
  for (std::size_t i = 0; i + 4 < file.size(); ++i) {
    if (file[i] == 0xFF && file[i + 1] == marker) return i + 4;
  }
  FAIL("no such marker");
  return 0;
}

Bytes with_size(Bytes file, std::uint32_t width, std::uint32_t height, std::uint8_t frame = 0xC0) {
  const std::size_t at = behind_marker(file, frame);
  put_number(file, at + 1, height, 2);
  put_number(file, at + 3, width, 2);
  return file;
}

std::uint32_t crc_of(const std::uint8_t* bytes, std::size_t count) {
  std::uint32_t crc = 0xFFFFFFFFU;
  for (std::size_t i = 0; i < count; ++i) {
    crc ^= bytes[i];
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1U) ^ ((crc & 1U) != 0 ? 0xEDB88320U : 0U);
  }
  return ~crc;
}

// The header's chunk begins at 12, its width at 16.
Bytes png_with_size(Bytes file, std::uint32_t width, std::uint32_t height) {
  put_number(file, 16, width, 4);
  put_number(file, 20, height, 4);
  put_number(file, 29, crc_of(file.data() + 12, 17), 4);
  return file;
}

TEST_CASE("no bytes and other bytes are no image") {
  Decoder decoder;
  CHECK_THAT(error_of(decoder, {}).message(), Catch::Contains("empty"));
  const Status text = error_of(decoder, Bytes{'G', 'I', 'F', '8', '9', 'a', 0, 0});
  CHECK(text.code() == Code::kDataLoss);
  CHECK_THAT(text.message(), Catch::Contains("the file of 8 bytes is neither JPEG nor PNG"));
}

TEST_CASE("a file that ends early is an error wherever it ends, and so are zeros from there on") {
  const Pixels image = picture({40, 40}, 3);
  Decoder decoder;
  for (const Bytes& file :
       {jpeg(image), jpeg(image, {.is_progressive = true}), jpeg(image, {.is_arithmetic = true}),
        png_of(image), png_of(image, {.is_interlaced = true})}) {
    // What is behind the last pixels is not read.
    for (std::size_t length = 0; length + 40 < file.size(); ++length) {
      const Bytes begin(file.begin(), file.begin() + static_cast<std::ptrdiff_t>(length));
      const Status status = error_of(decoder, begin);
      if (status.code() != Code::kDataLoss) FAIL("length " << length << ": " << status.to_string());
    }
  }
  Bytes zeros = jpeg(image);
  std::fill(zeros.begin() + static_cast<std::ptrdiff_t>(zeros.size() / 2), zeros.end(), 0);
  Bytes pixels(8 * 8 * 3);
  CHECK(decoder.decode(zeros, whole(image.size), 3, {8, 8}, pixels).code() == Code::kDataLoss);
}

TEST_CASE("a decoder decodes the next image after a damaged one") {
  const Pixels image = picture({40, 40}, 3);
  for (const Bytes& file : {jpeg(image), jpeg(image, {.is_progressive = true}), png_of(image)}) {
    Decoder decoder;
    const Pixels before = decoded(decoder, file, whole(image.size), 3, {20, 20});
    Bytes half(file.begin(), file.begin() + static_cast<std::ptrdiff_t>(file.size() / 2));
    CHECK_FALSE(error_of(decoder, half).ok());
    CHECK(decoded(decoder, file, whole(image.size), 3, {20, 20}).bytes == before.bytes);
  }
}

TEST_CASE("a JPEG without tables does not take those of the image before") {
  const Bytes file = jpeg(picture({40, 40}, 1));
  for (const int tables : {0xDB, 0xC4}) {  // quantisation, Huffman
    Bytes without = file;
    for (std::size_t i = 0; i + 1 < file.size(); ++i) {
      const bool is_table = file[i] == 0xFF && file[i + 1] == tables;
      if (is_table) without[i + 1] = 0xFE;  // a comment
    }
    Decoder fresh;
    Decoder used;
    Bytes first(8 * 8);
    Bytes second(8 * 8);
    const Window window{.width = 40, .height = 40};
    const Status wanted = fresh.decode(without, window, 1, {8, 8}, first);
    REQUIRE(used.decode(file, window, 1, {8, 8}, second).ok());
    CHECK(used.decode(without, window, 1, {8, 8}, second).to_string() == wanted.to_string());
    CHECK((!wanted.ok() || first == second));
  }
}

TEST_CASE("rows behind the window may be missing") {
  const Pixels image = picture({40, 160}, 3);
  const Bytes file = jpeg(image);
  const Bytes begin(file.begin(), file.begin() + static_cast<std::ptrdiff_t>(file.size() / 2));
  Decoder decoder;
  const Window top{.width = 40, .height = 16};
  CHECK(decoded(decoder, begin, top, 3, {40, 16}).bytes ==
        decoded(decoder, file, top, 3, {40, 16}).bytes);
}

TEST_CASE("a header that asks for too many pixels is refused with the figures") {
  Decoder decoder({.pixels_max = 1000});
  const Pixels image = picture({40, 40}, 3);
  for (const Bytes& file : {jpeg(image), png_of(image)}) {
    const auto size = decoder.measure(file);
    REQUIRE_FALSE(size);
    CHECK(size.error().code() == Code::kResourceExhausted);
    CHECK_THAT(size.error().message(),
               Catch::Contains("40 x 40 pixels") && Catch::Contains("at most 1000"));
  }
  CHECK(decoder.measure(jpeg(picture({40, 25}, 3))));
}

TEST_CASE("a small file that says it is huge costs no memory") {
  const Pixels image = picture({40, 40}, 3);
  const Bytes progressive = jpeg(image, {.is_progressive = true});
  const std::vector<Bytes> liars = {
      with_size(jpeg(image), 65500, 65500),
      with_size(jpeg(image), 16000, 16000),
      with_size(progressive, 16000, 16000, 0xC2),
      png_with_size(png_of(image), 16000, 16000),
      png_with_size(png_of(image, {.is_interlaced = true}), 16000, 16000),
      png_with_size(png_of(image), 0x7FFFFFFF, 0x7FFFFFFF),
      png_with_size(png_of(image), 1'000'001, 1)};
  rusage before{};
  getrusage(RUSAGE_SELF, &before);
  Decoder decoder;
  for (const Bytes& liar : liars) {
    const Status status = error_of(decoder, liar);
    CHECK_THAT(status.message(), Catch::Contains(" x ") && Catch::Contains("pixels"));
  }
  rusage after{};
  getrusage(RUSAGE_SELF, &after);
  CHECK(after.ru_maxrss - before.ru_maxrss < 64 * 1024);  // KiB
}

TEST_CASE("sizes that no image has are errors") {
  Decoder decoder;
  const Pixels image = picture({40, 40}, 3);
  for (const Bytes& file : {with_size(jpeg(image), 0, 40), with_size(jpeg(image), 40, 0),
                            png_with_size(png_of(image), 0, 9), png_with_size(png_of(image), 9, 0),
                            png_with_size(png_of(image), 0x80000001, 1)}) {
    CHECK_FALSE(error_of(decoder, file).message().empty());
  }
}

TEST_CASE("a wrong checksum of a PNG's pixels or header is an error") {
  const Pixels image = picture({40, 40}, 3);
  Decoder decoder;
  Bytes header = png_of(image);
  header[18] ^= 1U;
  CHECK_THAT(error_of(decoder, header).message(), Catch::Contains("CRC"));
  Bytes pixels = png_of(image);
  pixels[pixels.size() - 100] ^= 1U;
  CHECK(error_of(decoder, pixels).code() == Code::kDataLoss);
}

TEST_CASE("profiles and texts of megabytes are passed over") {
  const Pixels image = picture({40, 40}, 3);
  const Bytes file = jpeg(image, {.profile_bytes = 4U << 20U});
  CHECK(file.size() > 4U << 20U);
  CHECK(decoded_whole(file, 3).bytes == decoded_whole(jpeg(image), 3).bytes);
  CHECK(decoded_whole(png_of(image, {.text_bytes = 4U << 20U}), 3).bytes == image.bytes);
}

TEST_CASE("a JPEG with more scans than any program writes is refused") {
  const Pixels image = picture({40, 40}, 1);
  Decoder decoder;
  const JpegKind few{.is_progressive = true, .scans_more = 63};
  const JpegKind many{.is_progressive = true, .scans_more = 126};
  CHECK(decoded_whole(jpeg(image, few), 1).size.width == 40);
  const Status status = error_of(decoder, jpeg(image, many));
  CHECK(status.code() == Code::kResourceExhausted);
  CHECK_THAT(status.message(), Catch::Contains("more than 100 scans"));
}

TEST_CASE("windows that are not within the image are refused with their place") {
  const Pixels image = picture({40, 30}, 3);
  const double nan = std::nan("");
  Decoder decoder;
  Bytes pixels(8 * 8 * 3);
  for (const Bytes& file : {jpeg(image), png_of(image)}) {
    for (const Window window :
         {Window{.left = 1, .width = 40, .height = 30}, Window{.top = -1, .width = 4, .height = 3},
          Window{.width = 0, .height = 3}, Window{.width = 4, .height = -3},
          Window{.left = nan, .width = 4, .height = 3}, Window{.width = 4, .height = nan},
          Window{.left = 1e300, .width = 4, .height = 3},
          Window{.left = 40, .width = 1e-300, .height = 3},
          Window{.width = HUGE_VAL, .height = 3}}) {
      const Status status = decoder.decode(file, window, 3, {8, 8}, pixels);
      CHECK(status.code() == Code::kInvalidArgument);
      CHECK_THAT(status.message(), Catch::Contains("within the image of 40 x 30 pixels"));
    }
  }
}

TEST_CASE("a window up to the image's edge is within it, however its sum rounds") {
  const Pixels image = picture({40, 30}, 3);
  Decoder decoder;
  Bytes pixels(4 * 4 * 3);
  for (const Bytes& file : {jpeg(image), png_of(image)}) {
    for (int i = 1; i < 200; ++i) {
      const double left = i / 7.0;
      const Window window{.left = left, .top = left, .width = 40 - left, .height = 30 - left};
      if (!decoder.decode(file, window, 3, {4, 4}, pixels).ok()) FAIL(left);
    }
  }
}

TEST_CASE("random changes of a file give an image or an error with a reason") {
  std::mt19937 random(5);
  const Pixels image = picture({48, 32}, 3);
  Decoder decoder({.pixels_max = 1U << 16U});
  Bytes pixels(std::size_t{8} * 8 * 3);
  for (const Bytes& file :
       {jpeg(image), jpeg(image, {.is_progressive = true}), jpeg(image, {.is_arithmetic = true}),
        png_of(image), png_of(image, {.is_interlaced = true})}) {
    for (int i = 0; i < 500; ++i) {
      Bytes changed = file;
      for (unsigned n = random() % 4 + 1; n > 0; --n) {
        changed[random() % changed.size()] = static_cast<std::uint8_t>(random());
      }
      const auto size = decoder.measure(changed);
      if (!size) {
        if (size.error().message().empty()) FAIL("an error without a reason");
        continue;
      }
      const Status status = decoder.decode(changed, whole(*size), 3, {8, 8}, pixels);
      if (!status.ok() && status.message().empty()) FAIL("an error without a reason");
    }
  }
}

}  // namespace
}  // namespace phub::data::test
