// What two ends of a link do in step: ping-pongs, and bursts of writes with their acknowledgement.
//
// Each function has its counterpart, which the other end calls with the same count. The caller's
// thread owns the link's end. Errors: the link's.
#pragma once

#include <cstdint>
#include <vector>

#include "common/transport/link/link_end.h"

namespace phub::doctor {

constexpr std::uint32_t kPingBytes = 64;
constexpr std::uint32_t kChunkBytes = 32 * 1024;
// A burst is acknowledged by one small write, and two are on their way: 4 MiB, what 400 Gb/s and a
// round trip of 80 us hold. A receiver with rooms for four is always ready, as a server is.
constexpr std::uint32_t kBurst = 64;
constexpr std::uint32_t kBurstsOnTheirWay = 2;
constexpr std::uint32_t kLinkDepth = 4 * kBurst;
// So many fill every room of the other end.
constexpr std::uint32_t kLeastBursts = kLinkDepth / kBurst;

// Appends half of each round trip, in seconds.
Status ping(transport::LinkEnd& end, std::uint32_t count, std::uint32_t bytes,
            std::vector<double>& halves);
Status pong(transport::LinkEnd& end, std::uint32_t count, std::uint32_t bytes);

// Of writes of so many bytes; 0: of whole rooms. Returns when all have been acknowledged.
Status send_bursts(transport::LinkEnd& end, std::uint32_t count, std::uint32_t bytes = 0);
Status receive_bursts(transport::LinkEnd& end, std::uint32_t count);

}  // namespace phub::doctor
