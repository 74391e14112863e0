// The findings that a meeting of two doctors gives, each with its cure.
//
// Pure functions of values; any thread.
#pragma once

#include "server/doctor/checks/checks.h"
#include "server/doctor/peer/meeting.h"

namespace phub::doctor {

// All of them, in the order in which people read them. `choices`: this end's; what was asked for
// and cannot be had is a failure.
Findings judge(const Meeting& meeting, const Choices& choices);

Findings judge_peer(const Meeting& meeting);                            // was there one?
Findings judge_versions(const End& here, const End& there);             // of the software
Findings judge_trial(const LinkTrial& trial, const std::string& what);  // what: "tcp", "verbs"
Findings judge_rdma(const Meeting& meeting, const Choices& choices);  // both ports, the way between
Findings judge_mtu(const RdmaEnd& here, const RdmaEnd& there);
// Of the bandwidth against the slower card; none where its speed is not known.
Findings judge_speed(const LinkTrial& trial, const RdmaEnd& here, const RdmaEnd& there);

// "100 Gb/sec (4X EDR)" -> 1e11; 0 if it is something else.
double bits_per_second_of(const std::string& speed);

}  // namespace phub::doctor
