#include "bench/rack/testbed/fabric.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

namespace phub::bench {
namespace {

void add_hosts(Fabric& fabric, const RackScenario& scenario, std::uint32_t rack) {
  const Rack& sizes = scenario.racks(static_cast<int>(rack));
  const RackLinks& links = scenario.links();
  for (std::uint32_t i = 0; i < sizes.servers() + sizes.workers(); ++i) {
    const bool is_server = i < sizes.servers();
    const std::string name = is_server ? fmt::format("r{}s{}", rack, i)
                                       : fmt::format("r{}w{}", rack, i - sizes.servers());
    fabric.hosts.push_back({.is_server = is_server,
                            .rack = rack,
                            .name = name,
                            .address = fmt::format("10.77.{}.{}", rack, i + 1)});
    fabric.links.push_back(
        {.name = name, .mbit = links.worker_mbit() * (is_server ? links.server_factor() : 1)});
  }
}

// Real machines, in place of those that would be made.
void set_logins(Fabric& fabric, const RackScenario& scenario) {
  std::map<std::string, std::uint32_t> servers;  // by address
  std::map<std::uint32_t, int> taken;            // by rack
  for (RackHost& host : fabric.hosts) {
    const Rack& rack = scenario.racks(static_cast<int>(host.rack));
    if (rack.hosts_size() == 0) continue;
    host.login = rack.hosts(taken[host.rack]++);
    host.address = host.login.substr(host.login.find('@') + 1);
    if (host.is_server) {
      host.control_port = scenario.ssh().control_port() + servers[host.address]++;
    }
  }
}

double uplink_mbit(const RackScenario& scenario, const Rack& rack) {
  if (rack.has_uplink_mbit()) return rack.uplink_mbit();
  return rack.workers() * scenario.links().worker_mbit() / scenario.links().oversubscription();
}

// What one worker and one server say to each other in a round, each way.
void add_traffic(Fabric& fabric, std::size_t worker, std::size_t server, double bytes) {
  for (const std::size_t end : {worker, server}) {
    fabric.links[end].up_bytes += bytes;
    fabric.links[end].down_bytes += bytes;
    const std::uint32_t rack = fabric.hosts[end].rack;
    if (fabric.hosts[worker].rack == fabric.hosts[server].rack) continue;
    fabric.links[fabric.hosts.size() + rack].up_bytes += bytes;
    fabric.links[fabric.hosts.size() + rack].down_bytes += bytes;
  }
}

}  // namespace

Fabric plan_fabric(const RackScenario& scenario, double payload_bytes) {
  Fabric fabric;
  fabric.racks = static_cast<std::uint32_t>(scenario.racks_size());
  for (std::uint32_t rack = 0; rack < fabric.racks; ++rack) add_hosts(fabric, scenario, rack);
  set_logins(fabric, scenario);
  for (std::uint32_t rack = 0; fabric.has_uplinks() && rack < fabric.racks; ++rack) {
    fabric.links.push_back({.name = fmt::format("r{} uplink", rack),
                            .mbit = uplink_mbit(scenario, scenario.racks(static_cast<int>(rack)))});
  }
  const auto servers = std::count_if(fabric.hosts.begin(), fabric.hosts.end(),
                                     [](const RackHost& host) { return host.is_server; });
  const double share = payload_bytes / static_cast<double>(std::max<std::ptrdiff_t>(1, servers));
  for (std::size_t worker = 0; worker < fabric.hosts.size(); ++worker) {
    for (std::size_t server = 0; server < fabric.hosts.size(); ++server) {
      if (fabric.hosts[worker].is_server || !fabric.hosts[server].is_server) continue;
      add_traffic(fabric, worker, server, share);
    }
  }
  return fabric;
}

double least_seconds(const RackLink& link) {
  constexpr double kBytesPerMbit = 1e6 / 8;
  return std::max(link.up_bytes, link.down_bytes) / (link.mbit * kBytesPerMbit);
}

const RackLink& bounding_link(const Fabric& fabric) {
  return *std::max_element(
      fabric.links.begin(), fabric.links.end(),
      [](const RackLink& a, const RackLink& b) { return least_seconds(a) < least_seconds(b); });
}

}  // namespace phub::bench
