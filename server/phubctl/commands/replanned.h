// Which jobs' shapes would be others by a probe.
//
// One thread.
#pragma once

#include <string>
#include <vector>

#include "server/phubctl/commands/client.h"
#include "server/phubctl/planner/choice.h"

namespace phub::phubctl {

// A job whose shape would be another one by this probe, or that cannot be planned by it.
struct Replanned {
  control::JobInfo job;
  Status why = {};  // it cannot
  Alternative would_be = {};
  double seconds = 0.0;  // as it is
};

// Of the live jobs over racks that the caller sees. Errors: those of calls.
Result<std::vector<Replanned>> replan_all(const Session& session, const control::Probe& probe);

// A line for each; and an array of objects on one line.
std::string replanned_text(const std::vector<Replanned>& jobs);
std::string replanned_json(const std::vector<Replanned>& jobs);

}  // namespace phub::phubctl
