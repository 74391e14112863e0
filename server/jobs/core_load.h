// What jobs put on each core of this server, for planning the next one.
//
// Pure functions; any thread. Those of the index REQUIRE its mutex.
#pragma once

#include <cstdint>
#include <vector>

#include "common/plan/plan.h"
#include "server/jobs/job_index.h"

namespace phub::server {

using CoreLoad = std::vector<std::uint64_t>;  // bytes, by core

// Of a plan's chunks on one server.
CoreLoad load_of(const Plan& plan, DataType wire_type, std::uint32_t server_index);

// What a job of so many bytes will put on each core, given what is there: as the plan will place
// it, but with chunks of one size, so that a job which is not planned yet counts too.
CoreLoad expected_load(const CoreLoad& already, std::uint64_t bytes, std::uint32_t chunk_bytes);

// Of all live jobs with members but this one.
CoreLoad load_without(const JobIndex& index, const Job& job);

// What this job will be planned with, and a guess of what it will add itself. Fixed from its first
// join until it is planned.
void fix_core_load(const JobIndex& index, Job& job);

}  // namespace phub::server
