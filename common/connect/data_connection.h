// Opens one authenticated data connection to one core of a server. Blocking, within a deadline;
// set-up only.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>

#include "common/base/status.h"
#include "common/memory/memory.h"
#include "common/rendezvous/join_info.h"
#include "common/transport/shm/shm_endpoint.h"
#include "common/transport/tcp/congestion.h"
#include "common/transport/tcp/tcp_endpoint.h"
#include "common/transport/verbs/verbs_endpoint.h"

namespace phub::client {

struct DataTarget {
  const JoinInfo* joined = nullptr;
  std::uint32_t core = 0;
  std::chrono::milliseconds timeout{0};
  bool guards_memory = false;      // shm: map the server's memory as a stranger's (peer_memory.h)
  bool writes_parameters = false;  // shm: the server shares them for that (rounds.hogwild)
  transport::CongestionControl congestion_control = {};  // tcp
  std::uint32_t stream = 0;  // tcp: of several that the job's workers have to each core
};

// An authenticated stream, ready for a TcpEndpoint; encrypted if the join said so.
Result<transport::TcpStream> open_tcp(const DataTarget& target);

// Tells the server's core about `connection`, which was prepared, and learns about the other end;
// then it can be connected.
Status open_verbs(const DataTarget& target, transport::VerbsConnection& connection);

// A channel of `capacity` notices, ready for a ShmEndpoint: writes come from `memory`, which has
// the plan's size (common/protocol/window_layout.h) and is committed; the connection's peer_memory
// is the server's parameters.
Result<transport::ShmConnection> open_shm(const DataTarget& target, const SharedMemory& memory,
                                          std::uint32_t capacity);

}  // namespace phub::client
