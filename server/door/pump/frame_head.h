// The nine bytes in front of each HTTP/2 frame (RFC 9113, section 4.1).
//
// A value; any thread.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace phub::server {

inline constexpr std::size_t kFrameHeadBytes = 9;
// What a client says first (section 3.4).
inline constexpr std::string_view kPreface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

enum class FrameType : std::uint8_t {
  kData = 0,
  kHeaders = 1,
  kPriority = 2,
  kReset = 3,
  kSettings = 4,
  kPushPromise = 5,
  kPing = 6,
  kGoAway = 7,
  kWindowUpdate = 8,
  kContinuation = 9,
};

struct FrameHead {
  std::uint32_t length = 0;  // of the payload
  FrameType type = FrameType::kData;
  std::uint8_t flags = 0;
  std::uint32_t stream = 0;

  bool is_ack() const { return (flags & 0x1U) != 0; }        // of SETTINGS and PING
  bool ends_stream() const { return (flags & 0x1U) != 0; }   // of DATA and HEADERS
  bool ends_headers() const { return (flags & 0x4U) != 0; }  // of HEADERS and CONTINUATION
};

// REQUIRES: kFrameHeadBytes bytes.
inline FrameHead frame_head(const char* bytes) {
  const auto at = [bytes](std::size_t i) {
    return static_cast<std::uint32_t>(static_cast<unsigned char>(bytes[i]));
  };
  return {.length = at(0) << 16U | at(1) << 8U | at(2),
          .type = static_cast<FrameType>(at(3)),
          .flags = static_cast<std::uint8_t>(at(4)),
          .stream = (at(5) << 24U | at(6) << 16U | at(7) << 8U | at(8)) & 0x7fffffffU};
}

// Finds the heads in a stream of frames that comes in pieces.
class FrameReader {
 public:
  template <typename OnHead>
  void take(std::string_view bytes, const OnHead& on_head) {
    while (!bytes.empty()) {
      if (payload_left_ > 0) {
        const std::size_t part = std::min<std::size_t>(payload_left_, bytes.size());
        payload_left_ -= static_cast<std::uint32_t>(part);
        bytes.remove_prefix(part);
        continue;
      }
      head_[has_++] = bytes.front();
      bytes.remove_prefix(1);
      if (has_ < kFrameHeadBytes) continue;
      has_ = 0;
      const FrameHead head = frame_head(head_.data());
      payload_left_ = head.length;
      on_head(head);
    }
  }

  bool is_between_frames() const { return has_ == 0 && payload_left_ == 0; }

 private:
  std::array<char, kFrameHeadBytes> head_{};
  std::size_t has_ = 0;  // bytes of head_
  std::uint32_t payload_left_ = 0;
};

}  // namespace phub::server
