// Which CPUs this process may use, and pinning threads to them (hwloc). Set-up only.
#pragma once

#include <cstdint>
#include <vector>

#include "common/base/status.h"

namespace phub {

// CPUs (operating system numbers) that this process may run on, one hardware thread of every
// physical core before any second one, NUMA node by NUMA node.
Result<std::vector<std::uint32_t>> usable_cpus();

// The NUMA node of a CPU; -1: unknown.
int numa_node_of(std::uint32_t cpu);

// Binds the calling thread to one CPU.
Status pin_this_thread(std::uint32_t cpu);

}  // namespace phub
