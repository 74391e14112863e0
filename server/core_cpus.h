// Which CPU each core is pinned to. Set-up only.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "common/base/status.h"
#include "server/data_plane.h"

namespace phub::server {

// By core; nothing: it is not pinned (more cores than CPUs). Errors: kInvalidArgument for a CPU
// that this process may not use, kResourceExhausted for too many cores, with field and cure.
Result<std::vector<std::optional<std::uint32_t>>> assign_cpus(const DataPlaneOptions& options);

}  // namespace phub::server
