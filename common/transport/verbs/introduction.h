// What the two ends of a reliable connection tell each other over the stream of the set-up, in the
// bytes of the host (little-endian).
#pragma once

#include <array>
#include <cstdint>
#include <type_traits>

namespace phub::transport::verbs {

// The window is the memory that the other end may write to.
struct Introduction {
  std::uint32_t queue_pair = 0;
  std::uint32_t packet_sequence = 0;  // the first one that it sends, 24 bits
  std::uint32_t window_key = 0;
  std::uint32_t receive_depth = 0;  // writes that find a receive at any time
  std::uint64_t window_address = 0;
  std::uint64_t window_bytes = 0;
  std::array<std::uint8_t, 16> gid = {};
  std::uint16_t lid = 0;
  std::uint8_t mtu = 0;  // as ibv_mtu
  std::uint8_t global = 0;
  std::uint32_t reserved = 0;
};
static_assert(sizeof(Introduction) == 56 && std::is_trivially_copyable_v<Introduction>,
              "Introduction is a wire format");

}  // namespace phub::transport::verbs
