// The transports of a core. They are made with the core. Then each belongs to the core's thread.
#pragma once

#include <memory>
#include <vector>

#include "server/core/tcp_lane.h"
#include "server/core/window_lanes.h"

namespace phub::server {

struct CoreLanes {
  std::unique_ptr<ShmLane> shm;
  std::unique_ptr<TcpLane> tcp;
  std::unique_ptr<VerbsLane> verbs;  // null: there is no RDMA
  std::vector<Lane*> all;            // those of the above that exist
};

}  // namespace phub::server
