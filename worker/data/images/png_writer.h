// Writes an image as a PNG file. A function; any thread, one for each path at a time.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>

#include "common/base/status.h"
#include "worker/data/images/geometry.h"

namespace phub::data {

// `pixels` are bytes [row][column][channel], of 1 channel (grey) or 3 (red, green, blue). The file
// is written beside `path` and renamed when it is whole, so nobody sees a part of it. Errors name
// the path: kPermissionDenied, kResourceExhausted (the disk is full).
// REQUIRES: channels is 1 or 3; size has pixels; pixels.size() is size.pixels() * channels.
Status write_png(const std::filesystem::path& path, ImageSize size, std::uint32_t channels,
                 std::span<const std::uint8_t> pixels);

}  // namespace phub::data
