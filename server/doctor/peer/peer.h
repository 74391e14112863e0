// `phubctl doctor --peer HOST`: meets the doctor that listens there and measures what is between.
//
// One thread.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "common/rpc/tls_files.h"
#include "server/doctor/checks/checks.h"
#include "server/doctor/peer/meeting.h"
#include "server/doctor/peer/socket.h"

namespace phub::doctor {

struct MeetOptions {
  Address address;
  TlsFiles tls = {};  // empty: in clear
  Paths paths;
  Choices choices;
  double seconds = 1.0;  // of each measurement, about
  // At most so many for the bandwidth in a direction, but a few MiB in any case.
  std::uint64_t bytes = UINT64_MAX;
  bool has_verbs = true;      // else tcp only
  bool has_messages = false;  // how fast small writes follow each other is measured too
  std::string ticket = {};    // that the listener wants; empty: none
  Limits limits;
  std::function<void(const std::string&)> progress = {};  // what is done now; empty: nobody asks
};

// Never an error: what did not work is in the meeting.
Meeting meet(const MeetOptions& options);

}  // namespace phub::doctor
