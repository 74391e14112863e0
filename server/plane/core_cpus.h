// Which CPU each core is pinned to. Set-up only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "common/base/status.h"
#include "server/plane/data_plane.h"

namespace phub::server {

// Of so many CPUs, where nobody says how many cores: half of them, at least one. The others are for
// workers, their loaders and their devices' drivers, which a core that looks for work would keep
// from running.
constexpr std::size_t default_cores(std::size_t cpus) { return cpus > 1 ? cpus / 2 : 1; }

// By core; nothing: it is not pinned (more cores than CPUs). Errors: kInvalidArgument for a CPU
// that this process may not use, kResourceExhausted for too many cores, with field and cure.
Result<std::vector<std::optional<std::uint32_t>>> assign_cpus(const DataPlaneOptions& options);

}  // namespace phub::server
