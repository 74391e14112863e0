// What two doctors learn about each other and about what is between them, as plain values;
// judge.h makes findings of it.
//
// Values; one thread.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/rpc/address.h"
#include "server/doctor/checks/host.h"

namespace phub::doctor {

// The RDMA port that an end uses, or why it has none.
struct RdmaEnd {
  std::string obstacle;  // empty: the rest is set
  std::string device;
  std::uint32_t port = 0;
  transport::verbs::LinkLayer link_layer = transport::verbs::LinkLayer::kEthernet;
  transport::verbs::Gid gid;
  std::string gid_reason;
  std::uint32_t mtu_bytes = 0;
  std::string speed;  // "100 Gb/sec (4X EDR)"; empty: unknown, or invented by software RDMA
};

struct End {
  std::string host;
  std::string software;  // version; empty: not known
  RdmaEnd rdma;
};

// One transport between the two ends.
struct LinkTrial {
  Status status;  // why what follows is not complete
  // Half a round trip, the median; 0: not measured.
  double ping_seconds = 0.0;   // of kPingBytes
  double chunk_seconds = 0.0;  // of kChunkBytes
  double bytes_per_second_there = 0.0;
  double bytes_per_second_back = 0.0;
  double message_seconds = 0.0;  // one of kPingBytes, of many to the peer; if it was asked for
  // The bytes that arrived are those that were sent; of a trial whose status is OK.
  bool verified_here = false;
  bool verified_there = false;
  // Verbs: what the two ports counted meanwhile.
  std::vector<Counter> risen_here;
  std::vector<Counter> risen_there;
};

struct Meeting {
  Address address;  // that was asked for
  Status met;       // why there is no listener to speak with; the rest is then empty
  End here;
  End there;
  std::optional<LinkTrial> tcp;
  Status route;  // why no port here reaches the one there; OK also when an end has none
  std::optional<LinkTrial> verbs;
};

}  // namespace phub::doctor
