// How a plan's loads are shown to people.
//
// Pure functions; one thread.
#pragma once

#include <string>

#include "proto/control.pb.h"

namespace phub::phubctl {

// A line for each core; with RDMA each says which port serves it, and the ports have a line each.
std::string loads_text(const control::PlanReply& plan);

}  // namespace phub::phubctl
