// How many files the process may have open, and what the doors may take of that.
//
// Whatever strangers can open is bounded to parts of the limit, so that there are always
// descriptors left for workers' connections and for the state's files. Pure but for the first; any
// thread.
#pragma once

#include <cstddef>
#include <cstdint>

#include "common/base/status.h"

namespace phub::server {

// Raises the soft limit of open files to the hard one, and returns it. Error: kResourceExhausted,
// with figures and the cure, when it is too low to serve anybody.
Result<std::uint64_t> raise_descriptor_limit();

// Connections. Strangers and known callers at the control port have three descriptors each: the
// client's, and both ends of the pump's connection to gRPC. The others have one.
struct DescriptorShares {
  std::size_t handshakes = 512;      // at the data port, of tcp and of shm each
  std::size_t control_silent = 512;  // at the control port: have said nothing yet
  // No call of theirs has succeeded. What each may cost gRPC (server/door/pump/frame_gate.h) and
  // TLS comes to 64 MiB.
  std::size_t control_strangers = 192;
  std::size_t control_known = 4096;
};

DescriptorShares shares_of(std::uint64_t limit);
// Of the soft limit as it is now: main raises it before anything else.
DescriptorShares descriptor_shares();

// What a server with so many data connections needs, HTTP's connections and its files included.
std::uint64_t descriptors_wanted(const DescriptorShares& shares, std::uint64_t data_connections);

}  // namespace phub::server
