// The life of a server's process: it serves until a signal asks it to stop, drains and ends.
//
// The main thread calls it, before there are others.
#pragma once

#include "common/base/status.h"
#include "common/transport/transport.h"

namespace phub {
class ServerConfig;
}

namespace phub::server {

// Prints the ready line once it serves, and returns when it has stopped. `tcp_front` stands in
// front of each core's tcp. Error: why it cannot start; kInvalidArgument is the configuration's.
// REQUIRES: the configuration is valid (common/config/config.h).
Status serve(const ServerConfig& config, const transport::EndpointFront& tcp_front = {});

}  // namespace phub::server
