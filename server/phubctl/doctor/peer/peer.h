// `phubctl doctor --peer HOST`: meets the doctor that listens there and measures what is between.
//
// One thread.
#pragma once

#include <functional>
#include <string>

#include "server/phubctl/doctor/checks/checks.h"
#include "server/phubctl/doctor/peer/meeting.h"
#include "server/phubctl/doctor/peer/waits.h"

namespace phub::phubctl::doctor {

struct PeerOptions {
  Address address;
  Paths paths;
  Choices choices;
  double seconds = 1.0;  // of each measurement, about
  Limits limits;
  std::function<void(const std::string&)> progress = {};  // what is done now; empty: nobody asks
};

// Never an error: what did not work is in the meeting.
Meeting meet(const PeerOptions& options);

}  // namespace phub::phubctl::doctor
