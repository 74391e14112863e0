// Which CPUs this process may use, by its affinity and the quotas of its control groups, and
// pinning threads to them (hwloc). Set-up only.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/base/status.h"

namespace phub {

// A CPU that this process may run on.
struct UsableCpu {
  std::uint32_t cpu = 0;   // the operating system's number
  std::uint32_t rank = 0;  // among the hardware threads of its physical core
};

// All of them, physical core by physical core, NUMA node by NUMA node.
Result<std::vector<UsableCpu>> usable_cpus_by_core();

// CPUs (operating system numbers) that this process may run on, one hardware thread of every
// physical core before any second one, NUMA node by NUMA node.
Result<std::vector<std::uint32_t>> usable_cpus();

// The NUMA node of a CPU; -1: unknown.
int numa_node_of(std::uint32_t cpu);

// Binds the calling thread to one CPU.
Status pin_this_thread(std::uint32_t cpu);
// The same to several, among which the system chooses. REQUIRES: at least one.
Status run_this_thread_on(std::span<const std::uint32_t> cpus);

// As `taskset --cpu-list` has it: "0-3,8".
std::string cpu_list(std::vector<std::uint32_t> cpus);

// Where the kernel tells of control groups.
struct CgroupFiles {
  std::filesystem::path groups = "/proc/self/cgroup";
  std::filesystem::path root = "/sys/fs/cgroup";
};

// CPUs' worth of time that the strictest quota allows, of version 2 (cpu.max) or 1
// (cpu.cfs_quota_us), in the process's own group and in all above it. Nothing: there is no quota.
std::optional<double> cpu_quota(const CgroupFiles& files = {});

// CPUs of the affinity, or as many whole ones as the quota has, if these are fewer. At least 1.
std::uint32_t usable_cpu_count(const CgroupFiles& files = {});

}  // namespace phub
