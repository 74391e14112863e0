// Images in the binary formats of Netpbm: PGM (P5, grey) and PPM (P6, colours), 8 bits a channel.
//
// A function; any thread.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "common/base/status.h"

namespace phub::data {

struct NetpbmImage {
  std::uint32_t channels = 0;  // 1 or 3
  std::uint32_t height = 0;
  std::uint32_t width = 0;
  std::vector<std::uint8_t> pixels{};  // [row][column][channel]
};

// Errors: kNotFound; kDataLoss names the file, what is wrong and the cure.
Result<NetpbmImage> read_netpbm(const std::filesystem::path& path);

}  // namespace phub::data
