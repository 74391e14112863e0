// The congestion control of the data plane's tcp connections.
//
// It decides how much a sender may have on the way, and when. Within one host nothing is ever lost
// and there is no queue to keep short: one that paces by timers (BBR, some systems' default) or
// that takes the scheduler's jitter for a full queue (CUBIC's slow start) only costs throughput.
// Between hosts the kernel also gets no more than it can soon send: what it has, nothing more
// urgent can overtake.
#pragma once

#include <cstdint>
#include <string>

#include "common/base/status.h"

namespace phub::transport {

// What the kernel takes beyond what is on the way between hosts: four default chunks.
inline constexpr int kUnsentBytes = 128 * 1024;

// A value.
class CongestionControl {
 public:
  // "auto": reno within a host, else the system's. "system": the system's. Or a name.
  // Error: kInvalidArgument, with the names that the kernel offers.
  static Result<CongestionControl> parse(const std::string& name);

  // The kernel keeps at most so many KiB of a connection at either end, and so has no more of it on
  // the way; 0: as many as it finds right. Many connections that meet before one NIC lose nothing
  // while all of theirs fit into the switch's queue there (Wu, Feng, Guo, Zhang, "ICTCP", 2010, has
  // a receiver that finds the bound). Two segments always have room.
  void bound_buffers(std::uint32_t kib) { buffer_bytes_ = static_cast<int>(kib * 1024); }

  // On a socket that will listen or connect; what it accepts inherits. It has to come first: Linux
  // goes on pacing a connection that was once BBR's.
  void prepare(int socket) const;
  // On a socket once it is connected.
  void settle(int socket) const;

 private:
  std::string first_;      // set by prepare; empty: nothing
  std::string elsewhere_;  // set by settle when the peer is on another host; empty: nothing
  int buffer_bytes_ = 0;   // 0: not bounded
};

}  // namespace phub::transport
