// phubctl doctor: is this machine fit for PHub, and if not, what to do; with another host, is what
// lies between them. It asks no server.
//
// One thread.
#pragma once

#include <atomic>
#include <string>

#include "common/base/status.h"
#include "common/rpc/tls_files.h"
#include "server/doctor/checks/checks.h"
#include "server/doctor/checks/host.h"
#include "server/doctor/peer/meeting.h"

namespace phub::phubctl {

struct DoctorOptions {
  doctor::Paths paths;
  doctor::Choices choices;
  TlsFiles tls = {};        // of both ends of a meeting; empty: in clear
  std::string peer = {};    // HOST[:PORT] of another doctor; empty: this machine only
  double seconds = 1.0;     // of each measurement with the peer, about
  std::string listen = {};  // ADDRESS:PORT; empty: every address, doctor::kDefaultPort
  bool once = false;        // listening ends after one peer
};

// Prints the report. `stop` ends the measurements; the report says so. Error: kFailedPrecondition
// if a check failed; kInvalidArgument for a wrong peer.
Status examine_host(const DoctorOptions& options, bool as_json, const std::atomic<bool>& stop);

// Lets other hosts' doctors measure with this one until `stop` is set. Prints where it listens,
// then a line for each peer. Errors: the address cannot be had; with `once`, the peer's failure.
Status listen_for_peers(const DoctorOptions& options, bool as_json, const std::atomic<bool>& stop);

}  // namespace phub::phubctl

namespace phub::doctor {

// The findings as a table with the cures below each, then the GID table of every port.
std::string to_table(const Host& host, const Choices& choices, const Findings& findings);

// One object on one line: status, findings, devices, counters; `meeting` (may be null): peer.
std::string to_json(const Host& host, const Choices& choices, const Findings& findings,
                    const Meeting* meeting = nullptr);

}  // namespace phub::doctor
