// What jobs put on each core of this server, for planning the next one.
//
// Pure functions; any thread.
#pragma once

#include <cstdint>
#include <vector>

#include "common/plan/plan.h"

namespace phub::server {

using CoreLoad = std::vector<std::uint64_t>;  // bytes, by core

// Of a plan's chunks on one server.
CoreLoad load_of(const Plan& plan, DataType wire_type, std::uint32_t server_index);

// What a job of so many bytes will put on each core, given what is there: as the plan will place
// it, but with chunks of one size, so that a job which is not planned yet counts too.
CoreLoad expected_load(const CoreLoad& already, std::uint64_t bytes, std::uint32_t chunk_bytes);

}  // namespace phub::server
