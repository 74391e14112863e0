// phubctl doctor: is this machine fit for PHub, and if not, what to do. It asks no server.
//
// One thread.
#pragma once

#include <string>

#include "common/base/status.h"
#include "server/phubctl_doctor_checks.h"
#include "server/phubctl_doctor_host.h"

namespace phub::phubctl {

struct DoctorOptions {
  doctor::Paths paths;
  doctor::Choices choices;
};

// Prints the report. Error: kFailedPrecondition if a check failed.
Status examine_host(const DoctorOptions& options, bool as_json);

namespace doctor {

// The findings as a table with the cures below each, then the GID table of every port.
std::string to_table(const Host& host, const Choices& choices, const Findings& findings);

// One object on one line: status, findings, devices, counters.
std::string to_json(const Host& host, const Choices& choices, const Findings& findings);

}  // namespace doctor
}  // namespace phub::phubctl
