// The report of phubctl doctor, for people and for programs.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "common/text/table.h"
#include "common/transport/verbs/device/gid.h"
#include "common/transport/verbs/device/port_choice.h"
#include "server/phubctl/doctor/doctor.h"

namespace phub::doctor {
namespace {

using nlohmann::ordered_json;
using transport::verbs::DeviceInfo;
using transport::verbs::Port;
using transport::verbs::RatedGid;

// The entries of one port. Only the port that would be used heeds a forced index.
std::vector<RatedGid> rated_gids(const Host& host, const Choices& choices, const DeviceInfo& device,
                                 const Port& port) {
  const auto choice = transport::verbs::choose_port(host.devices, choices.devices);
  const bool is_used =
      choice && choice->device.name == device.name && choice->port.number == port.number;
  return transport::verbs::rate_gids(port, std::nullopt,
                                     is_used ? choices.gid_index : std::nullopt);
}

std::string gid_table(const std::vector<RatedGid>& rated) {
  Table table(">INDEX|TYPE|GID|INTERFACE|CHOICE");
  for (const RatedGid& entry : rated) {
    table.add({std::to_string(entry.gid.index), name_of(entry.gid.type), address_text(entry.gid),
               entry.gid.netdev.empty() ? "-" : entry.gid.netdev, entry.reason});
  }
  return table.to_string();
}

ordered_json json_of(const RatedGid& entry) {
  return {{"index", entry.gid.index},       {"type", name_of(entry.gid.type)},
          {"gid", address_text(entry.gid)}, {"interface", entry.gid.netdev},
          {"chosen", entry.chosen},         {"reason", entry.reason}};
}

ordered_json json_of(const Port& port, const std::vector<RatedGid>& rated) {
  ordered_json gids = ordered_json::array();
  for (const RatedGid& entry : rated) gids.push_back(json_of(entry));
  return {{"port", port.number},
          {"state", port.state},
          {"link_layer", name_of(port.link_layer)},
          {"lid", port.lid},
          {"mtu_bytes", port.mtu_bytes},
          {"mtu_bytes_max", port.mtu_bytes_max},
          {"speed", port.speed},
          {"interface", port.netdev},
          {"gids", std::move(gids)}};
}

ordered_json json_of(const transport::verbs::DeviceLimits& limits) {
  return {{"max_qp", limits.max_qp},   {"max_qp_wr", limits.max_qp_wr},
          {"max_sge", limits.max_sge}, {"max_cqe", limits.max_cqe},
          {"max_mr", limits.max_mr},   {"max_mr_size", limits.max_mr_size},
          {"max_srq", limits.max_srq}, {"max_srq_wr", limits.max_srq_wr}};
}

ordered_json json_of_devices(const Host& host, const Choices& choices) {
  ordered_json devices = ordered_json::array();
  for (const DeviceInfo& device : host.devices) {
    ordered_json ports = ordered_json::array();
    for (const Port& port : device.ports) {
      ports.push_back(json_of(port, rated_gids(host, choices, device, port)));
    }
    devices.push_back({{"name", device.name},
                       {"numa_node", device.numa_node},
                       {"unusable", device.unusable},
                       {"limits", json_of(device.limits)},
                       {"ports", std::move(ports)}});
  }
  return devices;
}

ordered_json json_of(const PortCounters& port) {
  ordered_json values = ordered_json::object();
  for (const Counter& counter : port.counters) values[counter.name] = counter.value;
  return {{"device", port.device}, {"port", port.port}, {"values", std::move(values)}};
}

ordered_json json_of(const RdmaEnd& end) {
  if (!end.obstacle.empty()) return {{"obstacle", end.obstacle}};
  return {{"device", end.device},
          {"port", end.port},
          {"link_layer", name_of(end.link_layer)},
          {"gid", address_text(end.gid)},
          {"gid_type", name_of(end.gid.type)},
          {"gid_index", end.gid.index},
          {"reason", end.gid_reason},
          {"mtu_bytes", end.mtu_bytes},
          {"speed", end.speed}};
}

ordered_json json_of(const End& end) {
  return {{"host", end.host}, {"version", end.software}, {"rdma", json_of(end.rdma)}};
}

ordered_json json_of(const std::optional<LinkTrial>& trial) {
  if (!trial) return nullptr;
  return {{"error", trial->status.message()},
          {"half_round_trip_seconds_64_bytes", trial->ping_seconds},
          {"half_round_trip_seconds_32_kib", trial->chunk_seconds},
          {"bytes_per_second_there", trial->bytes_per_second_there},
          {"bytes_per_second_back", trial->bytes_per_second_back},
          {"verified", trial->verified_here && trial->verified_there}};
}

ordered_json json_of(const Meeting& meeting) {
  return {{"address", to_string(meeting.address)}, {"error", meeting.met.message()},
          {"here", json_of(meeting.here)},         {"there", json_of(meeting.there)},
          {"tcp", json_of(meeting.tcp)},           {"verbs", json_of(meeting.verbs)}};
}

}  // namespace

std::string to_table(const Host& host, const Choices& choices, const Findings& findings) {
  Table table("STATUS|CHECK|WHERE|FINDING");
  for (const Finding& finding : findings) {
    table.add({word_of(finding.severity), finding.check, finding.where, finding.text});
    if (!finding.cure.empty()) table.add({"", "", "", "-> " + finding.cure});
  }
  std::string text = table.to_string();
  for (const DeviceInfo& device : host.devices) {
    for (const Port& port : device.ports) {
      text += fmt::format("\nGIDs of {} port {}\n", device.name, port.number);
      text += gid_table(rated_gids(host, choices, device, port));
    }
  }
  return text;
}

std::string to_json(const Host& host, const Choices& choices, const Findings& findings,
                    const Meeting* meeting) {
  ordered_json list = ordered_json::array();
  for (const Finding& finding : findings) {
    list.push_back({{"status", word_of(finding.severity)},
                    {"check", finding.check},
                    {"where", finding.where},
                    {"finding", finding.text},
                    {"cure", finding.cure}});
  }
  ordered_json counters = ordered_json::array();
  for (const PortCounters& port : host.counters) counters.push_back(json_of(port));
  ordered_json report = {{"status", word_of(severity_of(findings))},
                         {"findings", std::move(list)},
                         {"devices", json_of_devices(host, choices)},
                         {"counters", std::move(counters)}};
  if (meeting != nullptr) report["peer"] = json_of(*meeting);
  return report.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

}  // namespace phub::doctor
