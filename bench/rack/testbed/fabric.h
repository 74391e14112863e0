// The hosts and links of a scenario, and the bytes that a flat exchange moves over each link.
//
// Values and pure functions; any thread. Nothing here touches the system.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "proto/rack.pb.h"

namespace phub::bench {

struct RackHost {
  bool has_server = false;
  std::uint32_t workers = 0;  // with a server they are colocated
  std::uint32_t rack = 0;
  std::string
      name;  // "r0s0", "r1w3", "r0h1": rack, then server, worker or both; of its namespace and port
  std::string address;                // IPv4, or as the scenario has it
  std::string login = {};             // "[USER@]ADDRESS" of a real machine; empty: a namespace
  std::uint32_t control_port = 7077;  // of a server
};

// A link is full duplex. Up is from a host to its switch, or from a rack's switch to the core.
struct RackLink {
  std::string name;     // "r0w1", or "r0 uplink"
  double mbit = 0;      // each way
  double up_bytes = 0;  // payload of a round
  double down_bytes = 0;
};

struct Fabric {
  std::vector<RackHost> hosts;  // rack by rack, servers before workers
  std::vector<RackLink> links;  // of the hosts, in their order; then each rack's uplink if any
  std::uint32_t racks = 0;

  bool has_uplinks() const { return racks > 1; }
  const RackLink& uplink(std::uint32_t rack) const { return links[hosts.size() + rack]; }
};

// Hosts of a rack.
inline std::uint32_t hosts_of(const Rack& rack) {
  return rack.servers() + (rack.colocated() ? 0 : rack.workers());
}

// Every worker sends each server (of joined racks: its own) its even share of `payload_bytes` in a
// round, and gets as much back; joined racks push their sums up their trees. `small_share` of them
// is in small keys, with shape hybrid.
Fabric plan_fabric(const RackScenario& scenario, double payload_bytes, double small_share = 0.0);

// Bytes of a rack's sum, which crosses racks in fp32, for each byte that a worker pushes.
double sum_ratio_of(const RackScenario& scenario);

// The least time that a link allows for a round, in seconds: its busier way, payload alone.
double least_seconds(const RackLink& link);

// Messages between hosts that follow each other in a round, at least: each takes links.latency_us.
std::uint32_t messages_in_a_row(const RackScenario& scenario);

// The link that bounds a round, the first of several: T >= max over links of bytes / rate, which is
// the cost model's max(M/Bw, N*M/Bp, 2*N*M*(r-1)/(r*Bc)) where r racks have servers alike.
const RackLink& bounding_link(const Fabric& fabric);

}  // namespace phub::bench
