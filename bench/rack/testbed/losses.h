// What links lost: packets that a full queue dropped, and what hosts sent again.
//
// Belongs to the bench's main thread.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "bench/rack/testbed/fabric.h"
#include "bench/rack/testbed/testbed.h"
#include "common/base/status.h"

namespace phub::bench {

// Since the links were made.
struct LinkLosses {
  std::uint64_t dropped_up = 0;    // packets, at the queue of the link's lower end
  std::uint64_t dropped_down = 0;  // at the switch above
  std::uint64_t resent = 0;        // TCP segments that the link's host sent again; not of an uplink
};

// In the order of the fabric's links.
Result<std::vector<LinkLosses>> take_losses(const Fabric& fabric, const Testbed& testbed,
                                            const RackTools& tools);

// REQUIRES: of the same links.
std::vector<LinkLosses> losses_between(const std::vector<LinkLosses>& before,
                                       std::vector<LinkLosses> after);

// What `tc -s -j qdisc show` says of each interface's queue. Error: kInternal: not understood.
Result<std::map<std::string, std::uint64_t>> parse_drops(std::string_view json);

// RetransSegs of /proc/net/snmp. Error: kInternal: not understood.
Result<std::uint64_t> parse_resent(std::string_view snmp);

}  // namespace phub::bench
