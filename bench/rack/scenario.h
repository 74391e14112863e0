// Scenarios of `phub-bench rack`: textproto, checked against proto/rack.proto and then for sense.
//
// Pure functions; any thread. Errors are kInvalidArgument (kNotFound for a file that is not there)
// and read "FILE:LINE:COLUMN: field: what is wrong; the cure".
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "bench/processes/work.h"
#include "common/base/status.h"
#include "proto/rack.pb.h"

namespace phub::bench {

// The same from memory; `name` stands for the file in errors.
Result<RackScenario> parse_scenario(std::string_view text, const std::string& name);
Result<RackScenario> load_scenario(const std::string& path);

// Whether its hosts are real ones, in place of namespaces.
bool has_machines(const RackScenario& scenario);

// Whether a worker is on a server's host.
bool is_colocated(const RackScenario& scenario);

std::uint32_t workers_of(const RackScenario& scenario);
std::uint32_t servers_of(const RackScenario& scenario);

// The servers of a rack join those of the others.
inline bool is_joined(const RackScenario& scenario) { return scenario.shape() != "flat"; }

// The share of its bytes that is in keys that are small with shape hybrid; 0 with other shapes, and
// of a training, whose keys are its workers' to know. REQUIRES: a scenario that was checked.
double small_share_of(const RackScenario& scenario);
// Of a peer that is phub itself, "phub-chain": the shape that it has; nothing for others.
std::optional<std::string> shape_of_peer(std::string_view peer);

// What the workers exchange.
Work work_of(const RackScenario& scenario);

}  // namespace phub::bench
