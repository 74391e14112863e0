// What a ServerConfig means to the daemon.
//
// A pure function; any thread.
#pragma once

#include "proto/config.pb.h"
#include "server/daemon.h"

namespace phub::server {

// REQUIRES: the configuration is valid (common/config/config.h).
DaemonOptions options_from(const ServerConfig& config);

}  // namespace phub::server
