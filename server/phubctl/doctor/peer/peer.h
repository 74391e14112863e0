// `phubctl doctor --peer HOST`: meets the doctor that listens there and measures what is between.
//
// One thread.
#pragma once

#include <functional>
#include <string>

#include "common/rpc/tls_files.h"
#include "server/phubctl/doctor/checks/checks.h"
#include "server/phubctl/doctor/peer/meeting.h"
#include "server/phubctl/doctor/peer/socket.h"

namespace phub::phubctl::doctor {

struct MeetOptions {
  Address address;
  TlsFiles tls = {};  // empty: in clear
  Paths paths;
  Choices choices;
  double seconds = 1.0;  // of each measurement, about
  Limits limits;
  std::function<void(const std::string&)> progress = {};  // what is done now; empty: nobody asks
};

// Never an error: what did not work is in the meeting.
Meeting meet(const MeetOptions& options);

}  // namespace phub::phubctl::doctor
