// A scenario whose workers replay a training step: the exchange that it stands for, and what its
// links let simulate predict.
//
// Values and pure functions, but for reading the trace; main thread.
#pragma once

#include <string>

#include "bench/processes/work.h"
#include "bench/rack/testbed/site.h"
#include "bench/replay/outcome.h"
#include "bench/replay/plan.h"
#include "common/base/status.h"
#include "common/config/check.h"
#include "proto/rack.pb.h"

namespace phub::bench {

void check_replay(ConfigCheck& check, const RackReplay& replay);

// Of a scenario with `replay`, `exchange` then says the same where it can: sizes, type and rounds.
// A trace's relative path begins at the folder of `file`, the scenario's. Errors: of the trace, or
// the scenario, if iterations outlast timeout_s.
Status take_replay(RackScenario& scenario, const std::string& file);

// What the workers replay, and how they are started. REQUIRES: take_replay, of one with `replay`.
Result<replay::ReplayPlan> replay_plan_of(const RackScenario& scenario);
Result<HostProgram> replay_program(const RackScenario& scenario, const ServedWork& served);

// Of payload. There is no prediction where racks have not as many servers, or one has no workers.
replay::Rates rates_of(const RackScenario& scenario);

}  // namespace phub::bench
