// What the operating system allows: locked memory, huge pages, NUMA nodes, tcp.
#include <fmt/format.h>

#include <algorithm>

#include "common/text/table.h"
#include "server/doctor/checks/checks.h"

namespace phub::doctor {
namespace {

// Gradients, parameters and the pages of the queues are locked; with less than this not even a
// small network's are.
constexpr std::uint64_t kMemlockFloorBytes = 64ULL << 20U;

constexpr const char* kRaiseMemlock =
    "LimitMEMLOCK=infinity in the systemd unit; `* - memlock unlimited` in "
    "/etc/security/limits.conf and a new login; --ulimit memlock=-1 for a container";

std::string size_of(std::uint64_t bytes) {
  return bytes == kUnlimited ? "unlimited" : human_bytes(bytes);
}

std::string cpus_of(const Host& host, int node) {
  const auto found = std::find_if(host.numa_nodes.begin(), host.numa_nodes.end(),
                                  [&](const NumaNode& other) { return other.number == node; });
  return found == host.numa_nodes.end() ? "" : ", CPUs " + found->cpus;
}

}  // namespace

Findings check_memlock(const Host& host) {
  const Memlock& limit = host.memlock;
  Finding finding{.check = "memlock", .text = size_of(limit.soft_bytes)};
  if (limit.soft_bytes == kUnlimited) return {finding};
  if (limit.is_exempt) {
    finding.text += ", but CAP_IPC_LOCK exempts this process; a service or another user has none";
    return {finding};
  }
  if (host.devices.empty()) {
    finding.text += ": enough without RDMA, which locks its memory";
    return {finding};
  }
  const bool is_tiny = limit.soft_bytes < kMemlockFloorBytes;
  finding.severity = is_tiny ? Severity::kFail : Severity::kWarn;
  finding.text += is_tiny ? ": too little for RDMA, which locks what it registers"
                          : ": enough for RDMA while models fit in it";
  finding.cure =
      limit.hard_bytes == kUnlimited ? "ulimit -l unlimited, before the program" : kRaiseMemlock;
  return {finding};
}

Findings check_huge_pages(const Host& host) {
  const HugePages& pages = host.huge_pages;
  if (pages.anonymous.empty()) {
    return {{Severity::kOk, "huge pages", "", "this kernel has no transparent ones"}};
  }
  Finding own{.check = "huge pages", .text = "private memory: " + pages.anonymous};
  if (pages.anonymous == "never") {
    own.severity = Severity::kWarn;
    own.cure = "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled";
  }
  Findings findings = {own};
  if (!pages.shared.empty()) {
    const bool is_off = pages.shared == "never" || pages.shared == "deny";
    findings.push_back({Severity::kOk, "huge pages", "", "shared memory: " + pages.shared,
                        is_off ? "fewer TLB misses with: echo advise > "
                                 "/sys/kernel/mm/transparent_hugepage/shmem_enabled"
                               : ""});
  }
  if (!pages.reserved.empty()) {
    findings.push_back(
        {Severity::kOk, "huge pages", "",
         pages.reserved + " of 2 MiB reserved" +
             (pages.reserved == "0" ? ": RDMA memory takes transparent ones"
                                    : ": RDMA memory comes from them while there are enough"),
         pages.reserved == "0" && !host.devices.empty()
             ? "fewer TLB misses of the device with: sysctl vm.nr_hugepages=N, N times 2 MiB "
               "for the windows and parameters of all jobs"
             : ""});
  }
  return findings;
}

Findings check_numa(const Host& host) {
  Findings findings;
  for (const transport::verbs::DeviceInfo& device : host.devices) {
    Finding finding{.check = "numa", .where = device.name, .text = "belongs to no node"};
    if (device.numa_node >= 0) {
      finding.text = fmt::format("node {}{}", device.numa_node, cpus_of(host, device.numa_node));
      if (host.numa_nodes.size() > 1) {
        finding.cure = "cores are nearest on these CPUs: `cpus` in the server's configuration";
      }
    }
    findings.push_back(finding);
  }
  return findings;
}

Findings check_tcp(const Host& host) {
  if (host.congestion_control.empty()) {
    return {{Severity::kOk, "tcp", "", "this kernel does not show its congestion control"}};
  }
  return {{Severity::kOk, "tcp", "",
           fmt::format("congestion control: reno within the host, {} to others; offered: {}; "
                       "tcp_congestion_control overrides",
                       host.congestion_control, host.congestion_controls)}};
}

}  // namespace phub::doctor
