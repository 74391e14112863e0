// What an end says of itself: its host, and its RDMA port, chosen as a server or a worker would.
//
// One thread.
#pragma once

#include <vector>

#include "proto/doctor.pb.h"
#include "server/doctor/checks/checks.h"
#include "server/doctor/peer/meeting.h"

namespace phub::doctor {

// Of the other one's words.
constexpr std::size_t kMostHostBytes = 64;
constexpr std::size_t kMostTextBytes = 4000;

std::string host_name();

// Fit for a message, and for one line of a terminal: at most `most` bytes.
std::string printable(const std::string& text, std::size_t most = kMostTextBytes);

// As a server does, which knows no peer yet. Never an error: it may have an obstacle.
RdmaEnd choose_end(const Paths& paths, const Choices& choices);
// As a worker does towards its server's port. Error: kNotFound when none reaches it.
Result<RdmaEnd> choose_end_towards(const Paths& paths, const Choices& choices,
                                   const RdmaEnd& there);

// What the end's port has counted until now; nothing when it shows none.
std::vector<Counter> counters_of(const Paths& paths, const RdmaEnd& end);
// By how much each counter has grown; those that have not are left out.
std::vector<Counter> risen(const std::vector<Counter>& before, const std::vector<Counter>& after);

doctor_wire::Port to_wire(const RdmaEnd& end);
// Error: kInvalidArgument names the field that no doctor would send.
Result<RdmaEnd> from_wire(const doctor_wire::Port& port);

}  // namespace phub::doctor
