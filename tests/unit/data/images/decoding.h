// A decoder's answer as an image, for tests.
#pragma once

#include <catch2/catch.hpp>

#include "tests/unit/data/images/image_files.h"
#include "worker/data/images/decoder.h"

namespace phub::data::test {

inline Pixels decoded(Decoder& decoder, const Bytes& file, const Window& window,
                      std::uint32_t channels, ImageSize out) {
  Pixels pixels{.size = out, .channels = channels};
  pixels.bytes.assign(out.pixels() * channels, 99);
  const Status status = decoder.decode(file, window, channels, out, pixels.bytes);
  INFO(status.to_string());
  REQUIRE(status.ok());
  return pixels;
}

inline Window whole(ImageSize size) {
  return {.width = static_cast<double>(size.width), .height = static_cast<double>(size.height)};
}

inline Pixels decoded_whole(const Bytes& file, std::uint32_t channels) {
  Decoder decoder;
  const auto size = decoder.measure(file);
  REQUIRE(size);
  return decoded(decoder, file, whole(*size), channels, *size);
}

// The error of a file's decoding, which must fail.
inline Status error_of(Decoder& decoder, const Bytes& file, ImageSize out = {8, 8}) {
  Bytes pixels(out.pixels() * 3);
  const auto size = decoder.measure(file);
  const Window window = size ? whole(*size) : Window{.width = 1, .height = 1};
  Status status = decoder.decode(file, window, 3, out, pixels);
  REQUIRE_FALSE(status.ok());
  return status;
}

}  // namespace phub::data::test
