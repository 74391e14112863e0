#include <fmt/format.h>
#include <fmt/ranges.h>

#include "common/text/table.h"
#include "server/phubctl/commands/commands.h"

namespace phub::phubctl {
namespace {

const char* const kNotCounted = "-";

std::string gid_of(const control::PortInfo& port) {
  return fmt::format("{}: {} {}", port.gid_index(), port.gid_type(), port.gid());
}

std::string ports_table(const control::ServerInfo& server) {
  Table table("RDMA PORT|LINK|STATE|>NODE|>MTU|CORES|GID|>RECEIVED|>SENT|>PACKETS IN|>PACKETS OUT");
  for (const control::PortInfo& port : server.ports()) {
    table.add({human_port(port.device(), port.port()), port.link_layer(), port.state(),
               port.numa_node() < 0 ? "-" : std::to_string(port.numa_node()),
               std::to_string(port.mtu_bytes()), fmt::format("{}", fmt::join(port.cores(), ",")),
               gid_of(port),
               port.has_bytes_received() ? human_bytes(port.bytes_received()) : kNotCounted,
               port.has_bytes_sent() ? human_bytes(port.bytes_sent()) : kNotCounted,
               port.has_packets_received() ? human_count(port.packets_received()) : kNotCounted,
               port.has_packets_sent() ? human_count(port.packets_sent()) : kNotCounted});
  }
  return table.to_string();
}

// Empty: there is nothing to tell.
std::string signs_table(const control::ServerInfo& server) {
  Table table("RDMA PORT|SIGN OF|COUNTER|>VALUE");
  bool has_signs = false;
  for (const control::PortInfo& port : server.ports()) {
    for (const control::PortCounter& counter : port.counters()) {
      if (counter.kind().empty() || counter.value() == 0) continue;
      table.add({human_port(port.device(), port.port()), counter.kind(), counter.name(),
                 human_count(counter.value())});
      has_signs = true;
    }
  }
  return has_signs ? table.to_string() : "";
}

}  // namespace

std::string ports_text(const control::ServerInfo& server) {
  if (server.ports().empty()) return "";
  const std::string signs = signs_table(server);
  return ports_table(server) + (signs.empty() ? "" : "\n" + signs);
}

}  // namespace phub::phubctl
