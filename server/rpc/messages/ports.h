// The RDMA ports of a server in the messages of control.proto.
//
// Pure functions; any thread.
#pragma once

#include "proto/control.pb.h"
#include "server/jobs/table.h"
#include "server/plane/data_plane.h"

namespace phub::server {

void fill(const PortStatus& status, control::PortInfo& message);

// Says of this server's core loads, which are in the message, which port serves them, and adds the
// load of each port.
void fill_ports(const PlanView& view, control::PlanReply& message);

}  // namespace phub::server
