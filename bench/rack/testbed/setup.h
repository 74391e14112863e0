// The commands that build a fabric: batches for `ip` and `tc` of iproute2, as text.
//
// Pure functions; any thread. Namespaces are called "OWNER-HOST"; all switches are bridges in
// "OWNER-fabric", so that nothing is in the machine's own namespace and all goes with them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "bench/rack/testbed/fabric.h"
#include "proto/rack.pb.h"

namespace phub::bench {

inline constexpr std::string_view kSwitches = "fabric";  // the namespace of the switches
inline constexpr std::string_view kNic = "eth0";         // of a host, in its namespace

// What `ip -batch` or `tc -batch` reads.
struct Batch {
  std::string program;  // "ip" or "tc"
  std::string space;    // the namespace that it works in; empty: the machine's
  std::vector<std::string> lines;
};

std::string space_of(const std::string& owner, std::string_view host);
std::string uplink_of(std::uint32_t rack);    // the rack's end of its uplink, in kSwitches
std::string downlink_of(std::uint32_t rack);  // the core's end

// The host's route to all others, with the congestion control of who asks for none. The namespace's
// default lost: it takes only what the machine lets everybody use.
std::string congestion_line(const RackHost& host, std::string_view name);

// In the order in which they are to be run.
std::vector<Batch> setup_batches(const Fabric& fabric, const RackLinks& links,
                                 const std::string& owner);

}  // namespace phub::bench
