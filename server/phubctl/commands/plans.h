// What the commands that plan share: a job as the planner sees it, and the probe it plans by.
//
// One thread.
#pragma once

#include "server/phubctl/commands/client.h"
#include "server/phubctl/planner/choice.h"

namespace phub::phubctl {

// `bytes` 0: those of the spec's keys.
PlannedJob planned_of(const control::JobSpec& spec, double bytes);

// That the server keeps; without servers: there is none.
Result<control::Probe> last_probe(const Session& session);

}  // namespace phub::phubctl
