#include "common/base/affinity.h"

#include <hwloc.h>
#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <fstream>
#include <memory>
#include <string>

namespace phub {

namespace {

namespace fs = std::filesystem;

// "200000 100000" is 2 CPUs, "max 100000" is no quota.
std::optional<double> quota_of_version_2(const fs::path& group) {
  std::ifstream file(group / "cpu.max");
  double quota = 0.0;
  double period = 0.0;
  if (!(file >> quota >> period) || quota <= 0.0 || period <= 0.0) return std::nullopt;
  return quota / period;
}

std::optional<double> quota_of_version_1(const fs::path& group) {
  std::ifstream quota_file(group / "cpu.cfs_quota_us");
  std::ifstream period_file(group / "cpu.cfs_period_us");
  double quota = 0.0;
  double period = 0.0;
  if (!(quota_file >> quota) || !(period_file >> period)) return std::nullopt;
  if (quota <= 0.0 || period <= 0.0) return std::nullopt;
  return quota / period;
}

using QuotaOf = std::optional<double> (*)(const fs::path& group);

// Adds the quotas of a group and of all groups above it. In a container the path may be the host's.
// Then only its last group is there, as the root.
void add_quotas(const fs::path& root, const fs::path& group, QuotaOf quota_of,
                std::vector<double>& quotas) {
  fs::path inner = group.relative_path();
  while (true) {
    if (const auto quota = quota_of(root / inner)) quotas.push_back(*quota);
    if (inner.empty()) return;
    inner = inner.parent_path();
  }
}

bool names_cpu(const std::string& controllers) {
  return ("," + controllers + ",").find(",cpu,") != std::string::npos;
}

using Topology = std::unique_ptr<hwloc_topology, void (*)(hwloc_topology_t)>;

Result<Topology> load_topology() {
  hwloc_topology_t raw = nullptr;
  if (hwloc_topology_init(&raw) != 0) return errno_status("hwloc_topology_init");
  Topology topology(raw, hwloc_topology_destroy);
  if (hwloc_topology_load(raw) != 0) return errno_status("hwloc_topology_load");
  return topology;
}

}  // namespace

int numa_node_of(std::uint32_t cpu) {
  const auto topology = load_topology();
  if (!topology) return -1;
  hwloc_obj* const unit = hwloc_get_pu_obj_by_os_index(topology->get(), cpu);
  return unit == nullptr ? -1 : hwloc_bitmap_first(unit->nodeset);
}

Result<std::vector<UsableCpu>> usable_cpus_by_core() {
  PHUB_ASSIGN_OR_RETURN(const Topology topology, load_topology());
  hwloc_topology_t raw = topology.get();
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (::sched_getaffinity(0, sizeof(allowed), &allowed) != 0) {
    return errno_status("sched_getaffinity");
  }
  // The logical order follows cores and NUMA nodes.
  std::vector<UsableCpu> cpus;
  for (int i = 0; i < hwloc_get_nbobjs_by_type(raw, HWLOC_OBJ_PU); ++i) {
    hwloc_obj* const unit = hwloc_get_obj_by_type(raw, HWLOC_OBJ_PU, static_cast<unsigned>(i));
    if (unit->os_index >= CPU_SETSIZE || !CPU_ISSET(unit->os_index, &allowed)) continue;
    cpus.push_back({.cpu = unit->os_index, .rank = unit->sibling_rank});
  }
  if (cpus.empty()) return Status(Code::kInternal, "no usable CPU in the topology");
  return cpus;
}

Result<std::vector<std::uint32_t>> usable_cpus() {
  PHUB_ASSIGN_OR_RETURN(std::vector<UsableCpu> by_core, usable_cpus_by_core());
  std::stable_sort(by_core.begin(), by_core.end(),
                   [](const UsableCpu& a, const UsableCpu& b) { return a.rank < b.rank; });
  std::vector<std::uint32_t> cpus;
  for (const UsableCpu& each : by_core) cpus.push_back(each.cpu);
  return cpus;
}

Status pin_this_thread(std::uint32_t cpu) { return run_this_thread_on(std::span(&cpu, 1)); }

Status run_this_thread_on(std::span<const std::uint32_t> cpus) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const std::uint32_t cpu : cpus) CPU_SET(cpu, &set);
  const int error = ::pthread_setaffinity_np(::pthread_self(), sizeof(set), &set);
  if (error != 0) {
    errno = error;
    return errno_status("pinning a thread to CPU " + cpu_list({cpus.begin(), cpus.end()}) +
                            " (is it in this container's cpuset?)",
                        Code::kInvalidArgument);
  }
  return {};
}

std::string cpu_list(std::vector<std::uint32_t> cpus) {
  std::sort(cpus.begin(), cpus.end());
  std::string list;
  for (std::size_t first = 0, last = 0; first < cpus.size(); first = ++last) {
    while (last + 1 < cpus.size() && cpus[last + 1] == cpus[last] + 1) ++last;
    list += (first > 0 ? "," : "") + std::to_string(cpus[first]);
    if (last > first) list += "-" + std::to_string(cpus[last]);
  }
  return list;
}

std::optional<double> cpu_quota(const CgroupFiles& files) {
  std::vector<double> quotas;
  std::ifstream groups(files.groups);
  // "0::/path" of version 2, "4:cpu,cpuacct:/path" of version 1.
  for (std::string line; std::getline(groups, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const fs::path group = line.substr(second + 1);
    if (controllers.empty()) {
      add_quotas(files.root, group, quota_of_version_2, quotas);
      add_quotas(files.root / "unified", group, quota_of_version_2, quotas);
    } else if (names_cpu(controllers)) {
      add_quotas(files.root / controllers, group, quota_of_version_1, quotas);
      add_quotas(files.root / "cpu", group, quota_of_version_1, quotas);
    }
  }
  if (quotas.empty()) return std::nullopt;
  return *std::min_element(quotas.begin(), quotas.end());
}

std::uint32_t usable_cpu_count(const CgroupFiles& files) {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  std::uint32_t cpus = 1;
  if (::sched_getaffinity(0, sizeof(allowed), &allowed) == 0) {
    cpus = static_cast<std::uint32_t>(std::max(1, CPU_COUNT(&allowed)));
  }
  const auto quota = cpu_quota(files);
  if (!quota) return cpus;
  return std::max(1U, std::min(cpus, static_cast<std::uint32_t>(std::min(*quota, 1e6))));
}

}  // namespace phub
