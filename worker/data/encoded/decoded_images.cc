#include "worker/data/encoded/decoded_images.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace phub::data {
namespace {

// A decode thread has a copy of what it keeps.
constexpr std::uint64_t kContentBytesMax = 64ULL << 20U;
constexpr std::size_t kSizeBytes = 2 * sizeof(std::uint32_t);

}  // namespace

std::optional<ImageSize> DecodedImages::size_for(ImageSize image) const {
  const std::uint32_t shorter = std::min(image.width, image.height);
  if (side_ > 0 && shorter > side_) {
    const double scale = static_cast<double>(side_) / shorter;
    const auto scaled = [&](std::uint32_t side) {
      return static_cast<std::uint32_t>(std::lround(side * scale));
    };
    image = {scaled(image.width), scaled(image.height)};
  }
  if (image.pixels() > kContentBytesMax / channels_) return std::nullopt;
  return image;
}

std::optional<DecodedImages::Found> DecodedImages::find(std::uint64_t image) const {
  const auto entry = store_ ? store_->find(image) : std::nullopt;
  if (!entry) return std::nullopt;
  std::uint8_t bytes[kSizeBytes] = {};
  if (!store_->read(*entry, 0, bytes)) return std::nullopt;
  Found found{.entry = *entry, .size = {}};
  std::memcpy(&found.size.width, bytes, sizeof(std::uint32_t));
  std::memcpy(&found.size.height, bytes + sizeof(std::uint32_t), sizeof(std::uint32_t));
  const ImageSize& size = found.size;
  if (size.pixels() == 0 || size.pixels() > kContentBytesMax / channels_ ||
      entry->bytes != kSizeBytes + size.pixels() * channels_) {
    return std::nullopt;
  }
  return found;
}

bool DecodedImages::read_rows(const Found& found, PixelRange rows,
                              std::vector<std::uint8_t>& into) const {
  const std::uint64_t row_bytes = std::uint64_t{found.size.width} * channels_;
  into.resize(rows.count() * row_bytes);
  return store_->read(found.entry, kSizeBytes + rows.begin * row_bytes, into);
}

std::span<std::uint8_t> DecodedImages::begin(ImageSize size,
                                             std::vector<std::uint8_t>& content) const {
  content.resize(kSizeBytes + size.pixels() * channels_);
  std::memcpy(content.data(), &size.width, sizeof(std::uint32_t));
  std::memcpy(content.data() + sizeof(std::uint32_t), &size.height, sizeof(std::uint32_t));
  return std::span(content).subspan(kSizeBytes);
}

}  // namespace phub::data
