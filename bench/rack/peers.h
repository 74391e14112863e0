// Gloo and Open MPI between the workers of a scenario: in their namespaces, over the same links.
//
// Belongs to the bench's main thread. Ranks are the workers in the order of the hosts, so a ring
// crosses each uplink once each way.
#pragma once

#include <memory>
#include <string>

#include "bench/compare/systems.h"
#include "bench/rack/testbed/testbed.h"
#include "proto/rack.pb.h"

namespace phub::bench {

// `name`: one of the scenario's peers. Returns when all workers are connected and idle.
// Errors: kNotFound: it was not built; what its processes said.
Result<std::unique_ptr<System>> start_peer(const std::string& name, const Fabric& fabric,
                                           const RackScenario& scenario, const Testbed& testbed,
                                           Places& places);

// Starts Open MPI's daemons in place of ssh: a shell script that enters the namespace of the
// address that it is given.
std::string launch_agent(const Fabric& fabric, const Testbed& testbed);

}  // namespace phub::bench
