// Who pushed what is not finite, or what has not its checksum, in words.
//
// Pure functions; any thread.
#pragma once

#include <string>

#include "server/job/counters.h"
#include "server/jobs/job.h"

namespace phub::server {

// A key's name, or "#5" where it is not known any more: see forget_keys.
std::string key_name(const JobSpec& spec, std::uint32_t key);

// "NaN in key \"conv1\", element 5, in round 17", "... of the initial values".
std::string describe(const NotFinite& found, const JobSpec& spec);

// "worker 1 (host a, pid 5) pushed a chunk of key \"conv1\" in round 17 that has not its checksum:
// ...", and what to do.
std::string describe(const WorkerCorruption& found, const JobSpec& spec, const std::string& who);

// The seat whose first such push is of the earliest round. REQUIRES: there is one.
std::uint32_t first_culprit(const std::vector<WorkerValues>& values);
std::uint32_t first_culprit(const std::vector<WorkerCorruption>& corruption);

}  // namespace phub::server
