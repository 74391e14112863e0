#include "server/doctor/checks/host.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <charconv>
#include <fstream>

#include "common/base/first_line.h"
#include "common/base/folder.h"

namespace phub::doctor {
namespace {

constexpr int kCapabilityIpcLock = 14;  // linux/capability.h
constexpr int kHexadecimal = 16;

template <typename Number>
bool parse(const std::string& text, Number& number) {
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, number);
  return error == std::errc() && rest == end;
}

// The word in brackets of "always [madvise] never".
std::string chosen_word(const std::string& line) {
  const std::size_t open = line.find('[');
  const std::size_t close = line.find(']', open);
  return close == std::string::npos ? "" : line.substr(open + 1, close - open - 1);
}

std::vector<PortCounters> all_counters(const Paths& paths,
                                       const std::vector<std::string>& devices) {
  std::vector<PortCounters> all;
  for (const std::string& device : devices) {
    const std::string ports = fmt::format("{}/class/infiniband/{}/ports", paths.sysfs, device);
    for (const std::string& name : names_in(ports)) {
      std::uint32_t port = 0;
      if (!parse(name, port)) continue;
      all.push_back({device, port, transport::verbs::read_counters(paths.sysfs, device, port)});
    }
  }
  return all;
}

std::vector<NumaNode> numa_nodes_of(const std::string& sysfs) {
  const std::string folder = sysfs + "/devices/system/node/";
  std::vector<NumaNode> nodes;
  for (const std::string& name : names_in(folder)) {
    NumaNode node;
    if (!name.starts_with("node") || !parse(name.substr(4), node.number)) continue;
    node.cpus = first_line(fmt::format("{}{}/cpulist", folder, name));
    nodes.push_back(node);
  }
  return nodes;
}

bool has_ipc_lock(const std::string& procfs) {
  std::ifstream status(procfs + "/self/status");
  std::uint64_t capabilities = 0;
  for (std::string line; std::getline(status, line);) {
    if (!line.starts_with("CapEff:\t")) continue;
    std::from_chars(line.data() + 8, line.data() + line.size(), capabilities, kHexadecimal);
  }
  return (capabilities >> static_cast<unsigned>(kCapabilityIpcLock) & 1U) != 0;
}

Memlock read_memlock(const std::string& procfs) {
  const auto bytes = [](rlim_t limit) { return limit == RLIM_INFINITY ? kUnlimited : limit; };
  rlimit limit = {};
  if (::getrlimit(RLIMIT_MEMLOCK, &limit) != 0) return {};
  return {.soft_bytes = bytes(limit.rlim_cur),
          .hard_bytes = bytes(limit.rlim_max),
          .is_exempt = has_ipc_lock(procfs)};
}

HugePages read_huge_pages(const std::string& sysfs) {
  const std::string memory = sysfs + "/kernel/mm/";
  return {.anonymous = chosen_word(first_line(memory + "transparent_hugepage/enabled")),
          .shared = chosen_word(first_line(memory + "transparent_hugepage/shmem_enabled")),
          .reserved = first_line(memory + "hugepages/hugepages-2048kB/nr_hugepages")};
}

}  // namespace

Host read_host(const Paths& paths) {
  Host host;
  auto devices = transport::verbs::list_devices(paths.sysfs);
  if (devices) {
    host.devices = std::move(*devices);
  } else {
    host.devices_error = devices.error().message();
  }
  host.kernel_devices = names_in(paths.sysfs + "/class/infiniband");
  host.counters = all_counters(paths, host.kernel_devices);
  host.numa_nodes = numa_nodes_of(paths.sysfs);
  host.memlock = read_memlock(paths.procfs);
  host.huge_pages = read_huge_pages(paths.sysfs);
  const std::string tcp = paths.procfs + "/sys/net/ipv4/tcp_";
  host.congestion_control = first_line(tcp + "congestion_control");
  host.congestion_controls = first_line(tcp + "available_congestion_control");
  return host;
}

}  // namespace phub::doctor
