// The RDMA ports of a server in the messages of control.proto.
//
// Pure functions; any thread.
#pragma once

#include "proto/control.pb.h"
#include "server/data_plane.h"

namespace phub::server {

void fill(const PortStatus& status, control::PortInfo& message);

}  // namespace phub::server
