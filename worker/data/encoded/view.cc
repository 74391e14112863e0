#include "worker/data/encoded/view.h"

#include <algorithm>
#include <cmath>

namespace phub::data {
namespace {

// ITU-R BT.601, as JPEG's luminance.
constexpr float kRed = 0.299F, kGreen = 0.587F, kBlue = 0.114F;

Window centre(ImageSize image, double width, double height) {
  return {(image.width - width) / 2, (image.height - height) / 2, width, height};
}

// The largest part of that shape.
Window largest(ImageSize image, double shape) {
  const double width = std::min<double>(image.width, image.height * shape);
  return centre(image, width, width / shape);
}

double between(double low, double high, CounterRandom& random) {
  return low + (high - low) * static_cast<double>(random.uniform());
}

float grey(std::span<const std::uint8_t> pixel) {
  return pixel.size() == 1
             ? static_cast<float>(pixel[0])
             : kRed * static_cast<float>(pixel[0]) + kGreen * static_cast<float>(pixel[1]) +
                   kBlue * static_cast<float>(pixel[2]);
}

std::uint8_t to_byte(float value) {
  return static_cast<std::uint8_t>(std::clamp(value + 0.5F, 0.0F, 255.0F));
}

}  // namespace

Window test_window(const ViewOptions& options, ImageSize image, ImageSize out) {
  const Window whole = largest(image, static_cast<double>(out.width) / out.height);
  return centre(image, whole.width * options.test, whole.height * options.test);
}

Window training_window(const ViewOptions& options, ImageSize image, ImageSize out,
                       CounterRandom& random) {
  constexpr int kDraws = 10;
  if (options.min_area >= 1.0) return test_window(options, image, out);
  const double shape = static_cast<double>(out.width) / out.height;
  const double reach = std::log(options.stretch);
  for (int draw = 0; draw < kDraws; ++draw) {
    const double area =
        static_cast<double>(image.pixels()) * between(options.min_area, 1.0, random);
    const double ratio = shape * std::exp(between(-reach, reach, random));
    const double width = std::max(1.0, std::round(std::sqrt(area * ratio)));
    const double height = std::max(1.0, std::round(std::sqrt(area / ratio)));
    if (width > image.width || height > image.height) continue;
    // Whole pixels, each place alike.
    const double left = std::floor(between(0.0, image.width - width + 1.0, random));
    const double top = std::floor(between(0.0, image.height - height + 1.0, random));
    return {std::min(left, image.width - width), std::min(top, image.height - height), width,
            height};
  }
  return largest(image, shape);
}

void change_colours(const ViewOptions& options, std::uint32_t channels,
                    std::span<std::uint8_t> pixels, CounterRandom& random) {
  const auto factor = [&](float reach) {
    return static_cast<float>(between(1.0 - reach, 1.0 + reach, random));
  };
  const float brightness = factor(options.brightness);
  const float contrast = factor(options.contrast);
  const float saturation = channels == 1 ? 1.0F : factor(options.saturation);
  double sum = 0.0;
  for (std::size_t at = 0; at < pixels.size(); at += channels) {
    sum += static_cast<double>(grey(pixels.subspan(at, channels)));
  }
  const auto mean = static_cast<float>(sum * channels / static_cast<double>(pixels.size()));
  // Contrast is around the mean after the change of brightness.
  const float slope = brightness * contrast;
  const float offset = brightness * mean * (1.0F - contrast);
  for (std::size_t at = 0; at < pixels.size(); at += channels) {
    const auto pixel = pixels.subspan(at, channels);
    const float own_grey = grey(pixel) * (1.0F - saturation);
    for (std::uint8_t& value : pixel) {
      value = to_byte(slope * (saturation * static_cast<float>(value) + own_grey) + offset);
    }
  }
}

}  // namespace phub::data
