#include "bench/rack/testbed/fabric.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "common/base/dtype.h"
#include "common/plan/rack_trees.h"

namespace phub::bench {
namespace {

constexpr std::uint32_t kAnyRack = ~std::uint32_t{0};

bool workers_are_alone(const RackScenario& scenario) {
  return std::all_of(scenario.racks().begin(), scenario.racks().end(),
                     [](const Rack& rack) { return rack.workers() == 1; });
}

std::uint32_t workers_on(const Rack& rack, bool has_server) {
  if (rack.colocated()) return rack.workers() / rack.servers();
  return has_server ? 0 : 1;
}

void add_hosts(Fabric& fabric, const RackScenario& scenario, std::uint32_t rack) {
  const Rack& sizes = scenario.racks(static_cast<int>(rack));
  const RackLinks& links = scenario.links();
  for (std::uint32_t i = 0; i < hosts_of(sizes); ++i) {
    const bool has_server = i < sizes.servers();
    const std::uint32_t workers = workers_on(sizes, has_server);
    std::string name = fmt::format("r{}{}{}", rack, workers > 0 ? 'h' : 's', i);
    if (!has_server) name = fmt::format("r{}w{}", rack, i - sizes.servers());
    fabric.hosts.push_back({.has_server = has_server,
                            .workers = workers,
                            .rack = rack,
                            .name = name,
                            .address = fmt::format("10.77.{}.{}", rack, i + 1)});
    fabric.links.push_back(
        {.name = name, .mbit = links.worker_mbit() * (workers > 0 ? 1 : links.server_factor())});
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
    if (host.has_server) {
      host.control_port = scenario.ssh().control_port() + servers[host.address]++;
    }
  }
}

double uplink_mbit(const RackScenario& scenario, const Rack& rack) {
  if (rack.has_uplink_mbit()) return rack.uplink_mbit();
  return rack.workers() * scenario.links().worker_mbit() / scenario.links().oversubscription();
}

// What one host says to another in a round.
void add_bytes(Fabric& fabric, std::size_t from, std::size_t to, double bytes) {
  if (from == to) return;  // through memory
  fabric.links[from].up_bytes += bytes;
  fabric.links[to].down_bytes += bytes;
  const std::uint32_t out = fabric.hosts[from].rack;
  const std::uint32_t in = fabric.hosts[to].rack;
  if (out == in) return;
  fabric.links[fabric.hosts.size() + out].up_bytes += bytes;
  fabric.links[fabric.hosts.size() + in].down_bytes += bytes;
}

std::vector<std::size_t> servers_of(const Fabric& fabric, std::uint32_t rack) {
  std::vector<std::size_t> servers;
  for (std::size_t host = 0; host < fabric.hosts.size(); ++host) {
    if (fabric.hosts[host].has_server && (rack == kAnyRack || fabric.hosts[host].rack == rack)) {
      servers.push_back(host);
    }
  }
  return servers;
}

// Every worker has an even share with each server: of all racks, or of its own.
void add_workers(Fabric& fabric, bool own_rack_only, double payload_bytes) {
  for (std::size_t worker = 0; worker < fabric.hosts.size(); ++worker) {
    const double workers = fabric.hosts[worker].workers;
    if (workers == 0) continue;
    const std::uint32_t rack = own_rack_only ? fabric.hosts[worker].rack : kAnyRack;
    const std::vector<std::size_t> servers = servers_of(fabric, rack);
    for (const std::size_t server : servers) {
      const double share = workers * payload_bytes / static_cast<double>(servers.size());
      add_bytes(fabric, worker, server, share);
      add_bytes(fabric, server, worker, share);
    }
  }
}

// Of one tree of a shape, which has `small` trees for small keys only.
double share_of(std::size_t tree, std::size_t trees, std::size_t small, double small_share) {
  if (tree < small) return small_share / static_cast<double>(small);
  return (1.0 - (small > 0 ? small_share : 0.0)) / static_cast<double>(trees - small);
}

// Up each tree goes its share of the racks' sums, and the replies to it come back; a rack's servers
// share it.
void add_trees(Fabric& fabric, RackShape shape, const RackScenario& scenario, double payload_bytes,
               double small_share) {
  const std::vector<RackTree> trees = make_rack_trees(fabric.racks, shape);
  const std::uint32_t small = small_key_trees(fabric.racks, shape);
  const double sum_ratio = sum_ratio_of(scenario);
  for (std::size_t tree = 0; tree < trees.size(); ++tree) {
    const double bytes = payload_bytes * share_of(tree, trees.size(), small, small_share);
    for (std::uint32_t rack = 0; rack < fabric.racks; ++rack) {
      const std::uint32_t parent = trees[tree].parent[rack];
      if (parent == RackTree::kNone) continue;
      const std::vector<std::size_t> below = servers_of(fabric, rack);
      const std::vector<std::size_t> above = servers_of(fabric, parent);
      for (std::size_t i = 0; i < below.size(); ++i) {
        const double share = bytes / static_cast<double>(below.size());
        add_bytes(fabric, below[i], above[i], sum_ratio * share);
        add_bytes(fabric, above[i], below[i], share);
      }
    }
  }
}

}  // namespace

Fabric plan_fabric(const RackScenario& scenario, double payload_bytes, double small_share) {
  Fabric fabric;
  fabric.racks = static_cast<std::uint32_t>(scenario.racks_size());
  for (std::uint32_t rack = 0; rack < fabric.racks; ++rack) add_hosts(fabric, scenario, rack);
  set_logins(fabric, scenario);
  for (std::uint32_t rack = 0; fabric.has_uplinks() && rack < fabric.racks; ++rack) {
    fabric.links.push_back({.name = fmt::format("r{} uplink", rack),
                            .mbit = uplink_mbit(scenario, scenario.racks(static_cast<int>(rack)))});
  }
  const std::optional<RackShape> shape = rack_shape_of(scenario.shape());  // nothing: flat
  add_workers(fabric, shape.has_value(), payload_bytes);
  if (shape) add_trees(fabric, *shape, scenario, payload_bytes, small_share);
  return fabric;
}

double sum_ratio_of(const RackScenario& scenario) {
  const auto type = parse_data_type(scenario.exchange().dtype());
  const auto bytes = static_cast<double>(size_of(type.value_or(DataType::kFloat32)));
  return static_cast<double>(size_of(DataType::kFloat32)) / bytes;
}

double least_seconds(const RackLink& link) {
  constexpr double kBytesPerMbit = 1e6 / 8;
  return std::max(link.up_bytes, link.down_bytes) / (link.mbit * kBytesPerMbit);
}

std::uint32_t messages_in_a_row(const RackScenario& scenario) {
  const bool all_colocated = std::all_of(scenario.racks().begin(), scenario.racks().end(),
                                         [](const Rack& rack) { return rack.colocated(); });
  const std::optional<RackShape> shape = rack_shape_of(scenario.shape());
  const auto racks = static_cast<std::uint32_t>(scenario.racks_size());
  if (!shape) return 2;
  std::uint32_t depth = 0;
  for (const RackTree& tree : make_rack_trees(racks, *shape)) {
    for (std::uint32_t rack = 0; rack < racks; ++rack) {
      std::uint32_t edges = 0;
      for (std::uint32_t at = rack; tree.parent[at] != RackTree::kNone; at = tree.parent[at]) {
        ++edges;
      }
      depth = std::max(depth, edges);
    }
  }
  // A worker that is alone with its server is next to it.
  const bool is_alone = all_colocated && workers_are_alone(scenario);
  return 2 * depth + (is_alone ? 0 : 2);
}

const RackLink& bounding_link(const Fabric& fabric) {
  return *std::max_element(
      fabric.links.begin(), fabric.links.end(),
      [](const RackLink& a, const RackLink& b) { return least_seconds(a) < least_seconds(b); });
}

}  // namespace phub::bench
