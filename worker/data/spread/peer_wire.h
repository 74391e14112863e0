// What members of a spread set send each other, after the handshake of common/transport.
//
// Frames are those of common/transport/tcp. A frame's immediate is the request's number. A request
// is a PeerRequest. An answer is the sample's bytes in a checked frame, or one byte that says why
// not in a plain one. Hello says: worker, the asking member; core, the asked one; channel_capacity,
// how many requests it has under way at most.
#pragma once

#include <cstdint>

namespace phub::data {

struct PeerRequest {
  std::uint64_t sample = 0;
  std::uint32_t largest_bytes = 0;   // of an answer
  std::uint32_t content_number = 0;  // of the asker's set: the low bits of SampleSet's
  std::uint32_t wait_ms = 0;         // until the member refuses what it has not read
  std::uint32_t reserved = 0;
};
static_assert(sizeof(PeerRequest) == 24, "PeerRequest is a wire format");

enum class PeerRefusal : std::uint8_t { kNotHeld = 1, kTooLarge = 2, kOtherSet = 3, kLate = 4 };

inline constexpr std::uint32_t kRequestsMax = 256;  // of a member, under way

}  // namespace phub::data
