#include "worker/data/images/decoder.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>

#include "kernels/resize.h"
#include "worker/data/images/jpeg_reader.h"
#include "worker/data/images/png_reader.h"
#include "worker/data/images/reader.h"

namespace phub::data {
namespace {

// They stay in the first-level cache between the reader and the resizer.
constexpr std::uint32_t kRowsAtOnce = 8;
// libjpeg-turbo writes rows that begin at multiples of 16 bytes past the caches: the resizer would
// wait for memory (540 us an image instead of 403). So rows begin between such multiples.
constexpr std::size_t kVectorBytes = 16;
constexpr std::size_t kRowBegin = kVectorBytes / 2;

constexpr std::array<std::uint8_t, 3> kJpegBegin = {0xFF, 0xD8, 0xFF};
constexpr std::array<std::uint8_t, 8> kPngBegin = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1A, '\n'};

template <std::size_t n>
bool begins_with(std::span<const std::uint8_t> file, const std::array<std::uint8_t, n>& begin) {
  return file.size() >= n && std::equal(begin.begin(), begin.end(), file.begin());
}

std::string text_of(const Window& window) {
  return std::to_string(window.width) + " x " + std::to_string(window.height) + " at " +
         std::to_string(window.left) + ", " + std::to_string(window.top);
}

// left + width may round up.
constexpr double kRounding = 1e-6;

Status check_within(const Window& window, const ImageSize& size) {
  // Not a number is within nothing.
  const bool is_within = window.left >= 0 && window.top >= 0 && window.width > 0 &&
                         window.height > 0 &&
                         window.left + window.width <= size.width + kRounding &&
                         window.top + window.height <= size.height + kRounding;
  if (is_within && window.left < size.width && window.top < size.height) return {};
  return {Code::kInvalidArgument, "the window " + text_of(window) + " is not within the image of " +
                                      std::to_string(size.width) + " x " +
                                      std::to_string(size.height) + " pixels"};
}

}  // namespace

Decoder::Decoder(DecodeLimits limits)
    : limits_(limits),
      jpeg_(std::make_unique<JpegReader>(limits)),
      png_(std::make_unique<PngReader>(limits)) {}

Decoder::~Decoder() = default;

Result<Reader*> Decoder::reader_of(std::span<const std::uint8_t> file) const {
  if (begins_with(file, kJpegBegin)) return jpeg_.get();
  if (begins_with(file, kPngBegin)) return png_.get();
  if (file.empty()) return Status(Code::kDataLoss, "the file is empty; fetch it again");
  return Status(Code::kDataLoss, "the file of " + std::to_string(file.size()) +
                                     " bytes is neither JPEG nor PNG; convert it to one of them");
}

Result<ImageSize> Decoder::measure(std::span<const std::uint8_t> file) {
  PHUB_ASSIGN_OR_RETURN(Reader* const reader, reader_of(file));
  Result<ImageSize> size = reader->open(file);
  reader->close();
  return size;
}

Status Decoder::decode(std::span<const std::uint8_t> file, const Window& window,
                       std::uint32_t channels, ImageSize out, std::span<std::uint8_t> pixels) {
  PHUB_CHECK(channels == 1 || channels == 3, "an image has 1 or 3 channels");
  PHUB_CHECK(out.pixels() > 0 && pixels.size() == out.pixels() * channels,
             "the pixels do not have the size that is asked for");
  PHUB_ASSIGN_OR_RETURN(Reader* const reader, reader_of(file));
  Status status;
  if (const auto size = reader->open(file); !size) {
    status = size.error();
  } else if (status = check_within(window, *size); status.ok()) {
    const auto part = reader->start({.window = window, .channels = channels, .out = out});
    if (part) {
      resizer_.start(*part, channels, out, pixels);
      status = decode_rows(*reader, part->rows, part->columns);
    } else {
      status = part.error();
    }
  }
  reader->close();
  return status;
}

Status Decoder::decode_rows(Reader& reader, std::uint32_t rows, std::uint32_t columns) {
  const std::size_t row_bytes = std::size_t{4} * columns + kernels::kRowSlackBytes;
  const std::size_t stride = (row_bytes / kVectorBytes + 1) * kVectorBytes;
  const std::size_t bytes = kRowBegin + std::min(rows, kRowsAtOnce) * stride;
  if (rows_.size() < bytes) rows_.resize(bytes);
  std::uint8_t* const first = rows_.data() + kRowBegin;
  while (rows > 0) {
    const std::uint32_t count = std::min(rows, kRowsAtOnce);
    PHUB_RETURN_IF_ERROR(reader.read(first, stride, count));
    for (std::uint32_t i = 0; i < count; ++i) resizer_.add_row(first + i * stride);
    rows -= count;
  }
  return {};
}

}  // namespace phub::data
