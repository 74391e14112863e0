// Any bytes as an image's file: pixels that depend on nothing else, or an error with the reason.
#include <algorithm>
#include <cstdlib>
#include <vector>

#include "worker/data/images/decoder.h"

namespace {

constexpr phub::data::DecodeLimits kLimits = {.pixels_max = 1U << 18U};

// The bytes of the file choose the window and the output, so an input is a file as it is.
class Choice {
 public:
  Choice(const std::uint8_t* data, std::size_t size) {
    for (std::size_t i = 0; i < size; ++i) state_ = (state_ ^ data[i]) * 0x100000001B3U;
  }
  std::uint32_t below(std::uint32_t bound) {
    state_ = state_ * 6364136223846793005U + 1442695040888963407U;
    return static_cast<std::uint32_t>(state_ >> 33U) % bound;
  }

 private:
  std::uint64_t state_ = 0xCBF29CE484222325U;
};

phub::data::Window window_in(phub::data::ImageSize size, Choice& choice) {
  const double left = choice.below(size.width * 4) / 4.0;
  const double top = choice.below(size.height * 4) / 4.0;
  if (choice.below(4) == 0) {
    return {.width = static_cast<double>(size.width), .height = static_cast<double>(size.height)};
  }
  return {.left = left,
          .top = top,
          .width = std::max(0.25, choice.below(size.width) - left),
          .height = std::max(0.25, choice.below(size.height) - top)};
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static phub::data::Decoder decoder(kLimits);
  const std::span<const std::uint8_t> file(data, size);
  const auto image = decoder.measure(file);
  if (!image) {
    if (image.error().message().empty()) std::abort();
    return 0;
  }
  if (image->pixels() == 0 || image->pixels() > kLimits.pixels_max) std::abort();
  Choice choice(data, size);
  const auto window = window_in(*image, choice);
  const std::uint32_t channels = choice.below(2) == 0 ? 1 : 3;
  const phub::data::ImageSize out{1 + choice.below(40), 1 + choice.below(40)};
  std::vector<std::uint8_t> first(out.pixels() * channels, 0);
  std::vector<std::uint8_t> second(first.size(), 255);
  const phub::Status status = decoder.decode(file, window, channels, out, first);
  if (!status.ok() && status.message().empty()) std::abort();
  // Another decoder, and the same one again, write the same bytes, and all of them.
  phub::data::Decoder fresh(kLimits);
  for (phub::data::Decoder* const again : {&fresh, &decoder}) {
    const phub::Status other = again->decode(file, window, channels, out, second);
    if (other.to_string() != status.to_string()) std::abort();
    if (status.ok() && first != second) std::abort();
    std::fill(second.begin(), second.end(), std::uint8_t{127});
  }
  return 0;
}
