// Faults of a scenario: whom they hit, and whether a worker's error names who is at fault.
//
// Pure functions; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "bench/rack/testbed/fabric.h"
#include "common/config/check.h"
#include "proto/rack.pb.h"

namespace phub::bench {

void check_faults(ConfigCheck& check, const RackScenario& scenario);

// "r0s0", "r1w2", "r1 uplink"; "rack 1" where a whole rack starts late.
std::string target_of(const RackFault& fault);

// "KILL_SERVER r0s0, 0.5 s after 2 whole round(s)".
std::string fault_text(const RackFault& fault);

// Seconds that programs on the host start later than others.
double late_seconds(const RackScenario& scenario, const RackHost& host);

// Whether `error` names who is at fault, as the worker on `host` sees it: the host that was killed,
// cut off or late, by its address or as "worker N"; of a link that is down, a host at its other
// end.
bool names_fault(const Fabric& fabric, const RackFault& fault, const RackHost& host,
                 std::string_view error);

}  // namespace phub::bench
