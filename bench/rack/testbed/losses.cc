#include "bench/rack/testbed/losses.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>

namespace phub::bench {
namespace {

Result<std::map<std::string, std::uint64_t>> drops_in(const std::string& space,
                                                      const RackTools& tools) {
  PHUB_ASSIGN_OR_RETURN(const std::string json,
                        tools.tc({"-n", space, "-s", "-j", "qdisc", "show"}));
  return parse_drops(json);
}

// Of the port, if its queue is there.
std::uint64_t of(const std::map<std::string, std::uint64_t>& drops, std::string_view port) {
  const auto found = drops.find(std::string(port));
  return found == drops.end() ? 0 : found->second;
}

}  // namespace

Result<std::map<std::string, std::uint64_t>> parse_drops(std::string_view json) {
  const auto list = nlohmann::json::parse(json, nullptr, false);
  if (!list.is_array()) return Status(Code::kInternal, "tc's words on queues are not understood");
  std::map<std::string, std::uint64_t> drops;
  for (const auto& queue : list) {
    if (queue.contains("dev") && queue.contains("drops")) {
      drops[queue["dev"].get<std::string>()] += queue["drops"].get<std::uint64_t>();
    }
  }
  return drops;
}

Result<std::uint64_t> parse_resent(std::string_view snmp) {
  std::vector<std::vector<std::string>> lines;  // of TCP: names, then values
  std::istringstream text{std::string(snmp)};
  for (std::string line; std::getline(text, line);) {
    if (!line.starts_with("Tcp:")) continue;
    std::istringstream words(line);
    lines.emplace_back(std::istream_iterator<std::string>(words),
                       std::istream_iterator<std::string>());
  }
  if (lines.size() == 2 && lines[0].size() == lines[1].size()) {
    const auto name = std::find(lines[0].begin(), lines[0].end(), "RetransSegs");
    if (name != lines[0].end()) {
      return std::strtoull(lines[1][static_cast<std::size_t>(name - lines[0].begin())].c_str(),
                           nullptr, 10);
    }
  }
  return Status(Code::kInternal, "/proc/net/snmp has no RetransSegs of TCP");
}

Result<std::vector<LinkLosses>> take_losses(const Fabric& fabric, const Testbed& testbed,
                                            const RackTools& tools) {
  PHUB_ASSIGN_OR_RETURN(const auto ports, drops_in(testbed.space(kSwitches), tools));
  std::vector<LinkLosses> losses;
  for (const RackHost& host : fabric.hosts) {
    const std::string space = testbed.space(host.name);
    PHUB_ASSIGN_OR_RETURN(const auto own, drops_in(space, tools));
    PHUB_ASSIGN_OR_RETURN(const std::string snmp, tools.inside(space, {"cat", "/proc/net/snmp"}));
    PHUB_ASSIGN_OR_RETURN(const std::uint64_t resent, parse_resent(snmp));
    losses.push_back(
        {.dropped_up = of(own, kNic), .dropped_down = of(ports, host.name), .resent = resent});
  }
  for (std::uint32_t rack = 0; fabric.has_uplinks() && rack < fabric.racks; ++rack) {
    losses.push_back(
        {.dropped_up = of(ports, uplink_of(rack)), .dropped_down = of(ports, downlink_of(rack))});
  }
  return losses;
}

std::vector<LinkLosses> losses_between(const std::vector<LinkLosses>& before,
                                       std::vector<LinkLosses> after) {
  for (std::size_t i = 0; i < after.size(); ++i) {
    after[i].dropped_up -= before[i].dropped_up;
    after[i].dropped_down -= before[i].dropped_down;
    after[i].resent -= before[i].resent;
  }
  return after;
}

}  // namespace phub::bench
