// The tcp stream after the handshake: frames of a header and its payload, nothing else.
// Integers are little-endian, as on every host we run on.
#pragma once

#include <bit>
#include <cstdint>

namespace phub::transport {

static_assert(std::endian::native == std::endian::little, "frames are little-endian");

struct FrameHeader {
  std::uint32_t magic;  // kFrameMagic; of a checked frame the payload's checksum
  std::uint32_t immediate;
  std::uint32_t bytes;  // of the payload, > 0
  std::uint32_t check;  // frame_check, checked_frame_check: a stream out of step is seen at once
};
static_assert(sizeof(FrameHeader) == 16, "FrameHeader is a wire format");

inline constexpr std::uint32_t kFrameMagic = 0x31424850;  // "PHB1"

constexpr std::uint32_t frame_check(std::uint32_t immediate, std::uint32_t bytes) {
  return (kFrameMagic ^ std::rotl(immediate, 7) ^ std::rotl(bytes, 19)) * 0x9E3779B1U;
}

// Of a frame that brings its payload's checksum.
inline constexpr std::uint32_t kCheckedMagic = 0x43424850;  // "PHBC"

constexpr std::uint32_t checked_frame_check(std::uint32_t immediate, std::uint32_t bytes,
                                            std::uint32_t checksum) {
  return (kCheckedMagic ^ std::rotl(immediate, 7) ^ std::rotl(bytes, 19) ^
          std::rotl(checksum, 13)) *
         0x9E3779B1U;
}

}  // namespace phub::transport
