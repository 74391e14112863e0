// The upper half of a work request's id, by which a completion finds its connection: bit 31 says
// that it is a receive, then 15 bits of the connection's generation, then 16 of the peer. The lower
// half of a send's id is its sequence number.
//
// Peers are used again; what a completion queue still holds of an earlier one has another
// generation.
#pragma once

#include <cstdint>

#include "common/transport/transport.h"

namespace phub::transport::verbs {

using RequestTag = std::uint32_t;

constexpr std::uint32_t kMostPeers = 1U << 16U;
constexpr RequestTag kReceiveTag = 1U << 31U;

// Never 0, and without kReceiveTag.
constexpr RequestTag make_tag(PeerId peer, std::uint32_t generation) {
  return (generation % 0x7FFFU + 1) << 16U | peer;
}
constexpr PeerId peer_of(RequestTag tag) { return tag & 0xFFFFU; }

constexpr std::uint64_t request_id(RequestTag tag, std::uint32_t sequence) {
  return std::uint64_t{tag} << 32U | sequence;
}
constexpr RequestTag tag_of(std::uint64_t request) {
  return static_cast<RequestTag>(request >> 32U);
}

}  // namespace phub::transport::verbs
