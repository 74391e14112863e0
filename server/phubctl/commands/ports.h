// How a server's RDMA ports are shown to people.
//
// Pure functions; one thread.
#pragma once

#include <string>

#include "proto/control.pb.h"

namespace phub::phubctl {

// A line for each port, with what it has carried, then one for each counter of errors or congestion
// that is not zero. Empty without ports.
std::string ports_text(const control::ServerInfo& server);

}  // namespace phub::phubctl
