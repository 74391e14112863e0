#include "worker/data/netpbm.h"

#include <algorithm>
#include <cctype>
#include <fstream>
#include <optional>
#include <string>
#include <string_view>

#include "common/base/whole_file.h"

namespace phub::data {
namespace {

constexpr std::uint32_t kSideMax = 4096;
constexpr std::uint32_t kWhite = 255;
// The size of the largest image, with a header that has some comments.
constexpr std::size_t kFileBytesMax = std::size_t{3} * kSideMax * kSideMax + 64 * 1024;

// The header's words, between white space and comments.
class Header {
 public:
  explicit Header(std::string_view text) : text_(text) {}

  std::optional<std::uint32_t> number() {
    skip_space();
    std::uint32_t value = 0;
    const std::size_t begin = at_;
    for (; at_ < text_.size() && std::isdigit(byte()) != 0; ++at_) {
      value = value * 10 + static_cast<std::uint32_t>(text_[at_] - '0');
      if (value > kSideMax * kSideMax) return std::nullopt;
    }
    return at_ == begin ? std::nullopt : std::optional(value);
  }

  // One byte of white space is between the header and the pixels.
  std::optional<std::string_view> pixels() const {
    if (at_ >= text_.size() || std::isspace(byte()) == 0) return std::nullopt;
    return text_.substr(at_ + 1);
  }

 private:
  unsigned char byte() const { return static_cast<unsigned char>(text_[at_]); }
  void skip_space() {
    while (at_ < text_.size()) {
      if (text_[at_] == '#') {
        while (at_ < text_.size() && text_[at_] != '\n') ++at_;
      } else if (std::isspace(byte()) != 0) {
        ++at_;
      } else {
        return;
      }
    }
  }

  std::string_view text_;
  std::size_t at_ = 2;  // behind the magic word
};

Status wrong(const std::filesystem::path& path, const std::string& what) {
  return {Code::kDataLoss,
          path.string() + ": " + what +
              "; give a binary PGM or PPM file with 8 bits a channel (`magick photo.png "
              "-colorspace gray photo.pgm`)"};
}

}  // namespace

Result<NetpbmImage> read_netpbm(const std::filesystem::path& path) {
  PHUB_RETURN_IF_ERROR(check_readable_to_end(path));
  std::ifstream file(path, std::ios::binary);
  if (!file) return Status(Code::kNotFound, path.string() + ": cannot be read");
  std::string magic(2, '\0');
  file.read(magic.data(), 2);
  if (magic != "P5" && magic != "P6") return wrong(path, "is neither PGM nor PPM");
  std::string text(kFileBytesMax, '\0');
  std::copy(magic.begin(), magic.end(), text.begin());
  file.read(text.data() + 2, static_cast<std::streamsize>(text.size() - 2));
  text.resize(2 + static_cast<std::size_t>(file.gcount()));
  Header header(text);
  const auto width = header.number();
  const auto height = header.number();
  const auto white = header.number();
  if (!width || !height || !white)
    return wrong(path, "its header has no width, height and maximum");
  if (*width == 0 || *height == 0 || *width > kSideMax || *height > kSideMax) {
    return wrong(path, "it is " + std::to_string(*width) + " x " + std::to_string(*height) +
                           " pixels, and 1 to " + std::to_string(kSideMax) + " are allowed");
  }
  if (*white != kWhite) return wrong(path, "its maximum is " + std::to_string(*white));
  NetpbmImage image{.channels = magic == "P5" ? 1U : 3U, .height = *height, .width = *width};
  const std::size_t bytes = std::size_t{image.channels} * image.height * image.width;
  const auto pixels = header.pixels();
  if (!pixels || pixels->size() != bytes) {
    return wrong(path, "it has " + std::to_string(pixels ? pixels->size() : 0) +
                           " bytes of pixels, and its header says " + std::to_string(bytes));
  }
  image.pixels.assign(pixels->begin(), pixels->end());
  return image;
}

}  // namespace phub::data
