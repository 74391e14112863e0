// Reliable connections: what two ends tell each other, and the way of a queue pair from reset to
// ready. Free functions over plain values; set-up only.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "common/base/status.h"
#include "common/transport/verbs/device/objects.h"
#include "common/transport/verbs/introduction.h"

namespace phub::transport::verbs {

// The port that a queue pair uses, and how it is found from other hosts.
struct PortAddress {
  std::uint8_t port = 1;
  bool global = true;  // packets carry a GID (always on Ethernet; else only the LID is used)
  std::uint8_t mtu = IBV_MTU_1024;  // ibv_mtu
  std::uint8_t gid_index = 0;
  std::uint16_t lid = 0;
  std::array<std::uint8_t, 16> gid = {};
};

constexpr std::size_t kChain = 64;  // work requests to a doorbell, at most

// How deep a queue pair's queues are.
struct Depths {
  std::uint32_t send = 0;
  std::uint32_t receive = 0;
};

// A queue pair whose completions, of both kinds, go to `completions`. Errors name the device's
// limit that is too low.
Result<QueuePair> create_queue_pair(ibv_pd& domain, ibv_cq& completions, const Depths& depths);

// Reset -> init: receives may be posted, and the peer may write to windows of the domain.
Status to_init(ibv_qp& pair, const PortAddress& own);
// Init -> ready to receive -> ready to send.
Status connect(ibv_qp& pair, const PortAddress& own, std::uint32_t packet_sequence,
               const Introduction& peer);

// Random: packets of an earlier connection are not taken for those of this one.
std::uint32_t random_packet_sequence();

}  // namespace phub::transport::verbs
