#include "bench/rack/testbed/setup.h"

#include <fmt/format.h>

#include <algorithm>

namespace phub::bench {
namespace {

constexpr std::string_view kCore = "core";

std::string switch_of(std::uint32_t rack) { return fmt::format("rack{}", rack); }

// A host drops nothing of its own: sockets wait that have much in its queue (TCP small queues).
constexpr std::uint32_t kHostQueueKib = 16 * 1024;

// A queue of so many bytes behind a bucket that fills at the link's rate: what leaves `interface`.
std::string shape(std::string_view interface, double mbit, const RackLinks& links,
                  std::uint32_t queue_kib) {
  constexpr double kBitsPerMbit = 1e6;
  return fmt::format("qdisc add dev {} root tbf rate {:.0f}bit burst {}kb limit {}kb", interface,
                     mbit * kBitsPerMbit, links.burst_kib(), queue_kib);
}

void add_bridge(Batch& batch, std::string_view name) {
  batch.lines.push_back(fmt::format("link add name {} type bridge", name));
  batch.lines.push_back(fmt::format("link set dev {} up", name));
}

void add_port(Batch& batch, std::string_view interface, std::string_view bridge,
              const RackLinks& links) {
  batch.lines.push_back(
      fmt::format("link set dev {} mtu {} master {} up", interface, links.mtu(), bridge));
}

Batch switches(const Fabric& fabric, const RackLinks& links, const std::string& owner) {
  Batch batch{.program = "ip", .space = space_of(owner, kSwitches), .lines = {}};
  for (std::uint32_t rack = 0; rack < fabric.racks; ++rack) add_bridge(batch, switch_of(rack));
  for (const RackHost& host : fabric.hosts) {
    batch.lines.push_back(fmt::format("link add name {} type veth peer name {} netns {}", host.name,
                                      kNic, space_of(owner, host.name)));
    add_port(batch, host.name, switch_of(host.rack), links);
  }
  if (!fabric.has_uplinks()) return batch;
  add_bridge(batch, kCore);
  for (std::uint32_t rack = 0; rack < fabric.racks; ++rack) {
    batch.lines.push_back(
        fmt::format("link add name {} type veth peer name {}", uplink_of(rack), downlink_of(rack)));
    add_port(batch, uplink_of(rack), switch_of(rack), links);
    add_port(batch, downlink_of(rack), kCore, links);
  }
  return batch;
}

Batch port_rates(const Fabric& fabric, const RackLinks& links, const std::string& owner) {
  Batch batch{.program = "tc", .space = space_of(owner, kSwitches), .lines = {}};
  for (std::size_t i = 0; i < fabric.hosts.size(); ++i) {
    batch.lines.push_back(
        shape(fabric.hosts[i].name, fabric.links[i].mbit, links, links.queue_kib()));
  }
  for (std::uint32_t rack = 0; fabric.has_uplinks() && rack < fabric.racks; ++rack) {
    const double mbit = fabric.uplink(rack).mbit;
    batch.lines.push_back(shape(uplink_of(rack), mbit, links, links.queue_kib()));
    batch.lines.push_back(shape(downlink_of(rack), mbit, links, links.queue_kib()));
  }
  return batch;
}

}  // namespace

std::string space_of(const std::string& owner, std::string_view host) {
  return fmt::format("{}-{}", owner, host);
}

std::string uplink_of(std::uint32_t rack) { return fmt::format("up{}", rack); }
std::string downlink_of(std::uint32_t rack) { return fmt::format("down{}", rack); }

std::string congestion_line(const RackHost& host, std::string_view name) {
  return fmt::format("route replace 10.77.0.0/16 dev {} proto kernel scope link src {} congctl {}",
                     kNic, host.address, name);
}

std::vector<Batch> setup_batches(const Fabric& fabric, const RackLinks& links,
                                 const std::string& owner) {
  const std::uint32_t host_queue_kib = std::max(kHostQueueKib, links.queue_kib());
  std::vector<Batch> batches;
  Batch spaces{.program = "ip", .space = {}, .lines = {}};
  spaces.lines.push_back("netns add " + space_of(owner, kSwitches));
  for (const RackHost& host : fabric.hosts) {
    spaces.lines.push_back("netns add " + space_of(owner, host.name));
  }
  batches.push_back(std::move(spaces));
  batches.push_back(switches(fabric, links, owner));
  for (std::size_t i = 0; i < fabric.hosts.size(); ++i) {
    const RackHost& host = fabric.hosts[i];
    const std::string space = space_of(owner, host.name);
    batches.push_back({.program = "ip",
                       .space = space,
                       .lines = {"link set dev lo up",
                                 fmt::format("link set dev {} mtu {} up", kNic, links.mtu()),
                                 fmt::format("addr add {}/16 dev {}", host.address, kNic)}});
    batches.push_back({.program = "tc",
                       .space = space,
                       .lines = {shape(kNic, fabric.links[i].mbit, links, host_queue_kib)}});
  }
  batches.push_back(port_rates(fabric, links, owner));
  return batches;
}

}  // namespace phub::bench
