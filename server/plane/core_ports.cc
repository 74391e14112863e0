#include "server/plane/core_ports.h"

#include <algorithm>

#include "common/base/affinity.h"
#include "common/transport/verbs/device/gid.h"
#include "common/transport/verbs/device/port_choice.h"

namespace phub::server {

namespace verbs = transport::verbs;

namespace {

Result<OpenPort> open_port(const verbs::PortChoice& choice,
                           std::optional<std::uint32_t> gid_index) {
  PHUB_ASSIGN_OR_RETURN(const verbs::Gid gid,
                        verbs::choose_gid(choice.port, std::nullopt, gid_index));
  PHUB_ASSIGN_OR_RETURN(auto device, verbs::open_device(choice.device.name, choice.port.number,
                                                        static_cast<std::uint8_t>(gid.index)));
  return OpenPort{.identity = {.device = choice.device.name,
                               .port = choice.port.number,
                               .link_layer = choice.port.link_layer,
                               .gid = gid},
                  .numa_node = choice.device.numa_node,
                  .device = std::move(device)};
}

Result<std::vector<OpenPort>> open_allowed(const DataPlaneOptions& options) {
  std::vector<OpenPort> ports;
  if (options.verbs == OfferVerbs::kNo) return ports;
  const bool required = options.verbs == OfferVerbs::kYes || !options.verbs_devices.empty();
  PHUB_ASSIGN_OR_RETURN(const auto devices, verbs::list_devices(options.sysfs_root));
  auto choices = verbs::choose_ports(devices, options.verbs_devices);
  if (!choices && required) return choices.error().with_context("transports \"verbs\"");
  if (!choices) return ports;
  for (const verbs::PortChoice& choice : *choices) {
    auto port = open_port(choice, options.verbs_gid_index);
    if (port) {
      ports.push_back(std::move(*port));
    } else if (required) {
      return port.error();
    }
  }
  return ports;
}

}  // namespace

Result<std::vector<OpenPort>> open_ports(const DataPlaneOptions& options,
                                         const std::vector<std::optional<std::uint32_t>>& cpus) {
  PHUB_ASSIGN_OR_RETURN(const std::vector<OpenPort> ports, open_allowed(options));
  std::vector<OpenPort> by_core;
  if (ports.empty()) return by_core;
  std::vector<std::size_t> cores_of(ports.size());
  for (const auto& cpu : cpus) {
    const int node = cpu ? numa_node_of(*cpu) : -1;
    const auto is_far = [&](std::size_t port) {
      return node >= 0 && ports[port].numa_node >= 0 && ports[port].numa_node != node;
    };
    std::size_t best = 0;
    for (std::size_t port = 1; port < ports.size(); ++port) {
      if (std::pair(is_far(port), cores_of[port]) < std::pair(is_far(best), cores_of[best])) {
        best = port;
      }
    }
    ++cores_of[best];
    by_core.push_back(ports[best]);
  }
  return by_core;
}

std::vector<PortStatus> statuses_of(const std::vector<OpenPort>& by_core,
                                    const std::string& sysfs_root) {
  std::vector<PortStatus> statuses;
  for (std::uint32_t core = 0; core < by_core.size(); ++core) {
    const CorePort& identity = by_core[core].identity;
    const auto known = std::find_if(statuses.begin(), statuses.end(), [&](const PortStatus& other) {
      return other.identity.device == identity.device && other.identity.port == identity.port;
    });
    if (known != statuses.end()) {
      known->cores.push_back(core);
      continue;
    }
    const verbs::PortNow now = verbs::ask_port(*by_core[core].device);
    statuses.push_back(
        {.identity = identity,
         .numa_node = by_core[core].numa_node,
         .state = now.state,
         .mtu_bytes = now.mtu_bytes,
         .cores = {core},
         .counters = verbs::read_counters(sysfs_root, identity.device, identity.port)});
  }
  return statuses;
}

}  // namespace phub::server
