#include "common/base/affinity.h"

#include <hwloc.h>
#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <memory>
#include <tuple>

namespace phub {

namespace {

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

Result<std::vector<std::uint32_t>> usable_cpus() {
  PHUB_ASSIGN_OR_RETURN(const Topology topology, load_topology());
  hwloc_topology_t raw = topology.get();
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (::sched_getaffinity(0, sizeof(allowed), &allowed) != 0) {
    return errno_status("sched_getaffinity");
  }
  // (rank among the hardware threads of its core, logical index): logical order follows NUMA.
  std::vector<std::tuple<unsigned, unsigned, std::uint32_t>> order;
  for (int i = 0; i < hwloc_get_nbobjs_by_type(raw, HWLOC_OBJ_PU); ++i) {
    hwloc_obj* const unit = hwloc_get_obj_by_type(raw, HWLOC_OBJ_PU, static_cast<unsigned>(i));
    if (unit->os_index >= CPU_SETSIZE || !CPU_ISSET(unit->os_index, &allowed)) continue;
    order.emplace_back(unit->sibling_rank, unit->logical_index, unit->os_index);
  }
  std::sort(order.begin(), order.end());
  std::vector<std::uint32_t> cpus;
  for (const auto& entry : order) cpus.push_back(std::get<2>(entry));
  if (cpus.empty()) return Status(Code::kInternal, "no usable CPU in the topology");
  return cpus;
}

Status pin_this_thread(std::uint32_t cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  const int error = ::pthread_setaffinity_np(::pthread_self(), sizeof(set), &set);
  if (error != 0) {
    errno = error;
    return errno_status(
        "pinning a thread to CPU " + std::to_string(cpu) + " (is it in this container's cpuset?)",
        Code::kInvalidArgument);
  }
  return {};
}

}  // namespace phub
