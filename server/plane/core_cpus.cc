#include "server/plane/core_cpus.h"

#include <algorithm>
#include <string>

#include "common/base/affinity.h"

namespace phub::server {

Result<std::vector<std::optional<std::uint32_t>>> assign_cpus(const DataPlaneOptions& options) {
  PHUB_ASSIGN_OR_RETURN(const std::vector<std::uint32_t> usable, usable_cpus());
  std::vector<std::optional<std::uint32_t>> cpus(options.cpus.begin(), options.cpus.end());
  for (const auto& cpu : cpus) {
    if (std::find(usable.begin(), usable.end(), *cpu) == usable.end()) {
      return Status(Code::kInvalidArgument,
                    "cpus: this process may not run on CPU " + std::to_string(*cpu));
    }
  }
  if (!cpus.empty()) return cpus;
  const std::size_t cores = options.cores == 0 ? default_cores(usable.size()) : options.cores;
  if (cores > usable.size() && !options.allow_oversubscription) {
    return Status(Code::kResourceExhausted,
                  "cores: " + std::to_string(cores) + " asked for, the machine has " +
                      std::to_string(usable.size()) +
                      " CPUs for us; ask for fewer or set allow_oversubscription");
  }
  if (cores > usable.size()) {
    cpus.resize(cores);  // none is pinned: the system balances them
  } else {
    cpus.assign(usable.begin(), usable.begin() + static_cast<std::ptrdiff_t>(cores));
  }
  return cpus;
}

}  // namespace phub::server
