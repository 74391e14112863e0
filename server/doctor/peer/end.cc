#include "server/doctor/peer/end.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>

#include "common/base/visible.h"
#include "common/transport/verbs/device/gid.h"
#include "common/transport/verbs/device/route.h"

namespace phub::doctor {
namespace {

namespace verbs = transport::verbs;

RdmaEnd without(const std::string& obstacle) {
  RdmaEnd end;
  end.obstacle = obstacle;
  return end;
}

RdmaEnd make_end(const Paths& paths, const verbs::PortChoice& choice, const verbs::RatedGid& gid) {
  const std::string card = paths.sysfs + "/class/infiniband/" + choice.device.name + "/device";
  std::error_code ignored;
  const bool is_card = std::filesystem::exists(card, ignored);
  return {.obstacle = {},
          .device = choice.device.name,
          .port = choice.port.number,
          .link_layer = choice.port.link_layer,
          .gid = gid.gid,
          .gid_reason = gid.reason,
          .mtu_bytes = choice.port.mtu_bytes,
          .speed = is_card ? choice.port.speed : ""};
}

verbs::RatedGid chosen(const std::vector<verbs::RatedGid>& rated) {
  const auto found = std::find_if(rated.begin(), rated.end(),
                                  [](const verbs::RatedGid& entry) { return entry.chosen; });
  return found == rated.end() ? verbs::RatedGid{} : *found;
}

Status refused(const char* field) {
  return {Code::kInvalidArgument, std::string("the other doctor's port has a wrong ") + field +
                                      "; is it the same version?"};
}

}  // namespace

std::string host_name() {
  std::array<char, 256> name = {};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "this host";
}

std::string printable(const std::string& text, std::size_t most) {
  std::string line = visible(std::string_view(text).substr(0, most));
  std::replace(line.begin(), line.end(), '\n', ' ');
  return line;
}

RdmaEnd choose_end(const Paths& paths, const Choices& choices) {
  const auto devices = verbs::list_devices(paths.sysfs);
  if (!devices) return without(devices.error().message());
  const auto choice = verbs::choose_port(*devices, choices.devices);
  if (!choice) return without(choice.error().message());
  const auto gid = verbs::choose_gid(choice->port, std::nullopt, choices.gid_index);
  if (!gid) return without(gid.error().message());
  return make_end(paths, *choice,
                  chosen(verbs::rate_gids(choice->port, std::nullopt, choices.gid_index)));
}

Result<RdmaEnd> choose_end_towards(const Paths& paths, const Choices& choices,
                                   const RdmaEnd& there) {
  PHUB_ASSIGN_OR_RETURN(const auto devices, verbs::list_devices(paths.sysfs));
  PHUB_ASSIGN_OR_RETURN(const auto ports, verbs::choose_ports(devices, choices.devices));
  PHUB_ASSIGN_OR_RETURN(
      const verbs::Route route,
      verbs::choose_route(ports, {"the other host's " + there.device, there.link_layer, there.gid},
                          choices.gid_index));
  return make_end(paths, route.choice,
                  chosen(verbs::rate_gids(route.choice.port, there.gid, choices.gid_index)));
}

std::vector<Counter> counters_of(const Paths& paths, const RdmaEnd& end) {
  return verbs::read_counters(paths.sysfs, end.device, end.port);
}

std::vector<Counter> risen(const std::vector<Counter>& before, const std::vector<Counter>& after) {
  std::vector<Counter> all;
  for (const Counter& now : after) {
    const auto then = std::find_if(before.begin(), before.end(), [&](const Counter& counter) {
      return counter.name == now.name;
    });
    if (then == before.end() || now.value <= then->value) continue;
    all.push_back({now.name, now.value - then->value});
  }
  return all;
}

doctor_wire::Port to_wire(const RdmaEnd& end) {
  doctor_wire::Port port;
  port.set_obstacle(printable(end.obstacle));
  if (!end.obstacle.empty()) return port;
  port.set_device(end.device);
  port.set_number(end.port);
  port.set_link_layer(static_cast<doctor_wire::LinkLayer>(end.link_layer));
  port.set_gid(end.gid.bytes.data(), end.gid.bytes.size());
  port.set_gid_type(static_cast<doctor_wire::GidType>(end.gid.type));
  port.set_gid_index(end.gid.index);
  port.set_gid_reason(printable(end.gid_reason));
  port.set_mtu_bytes(end.mtu_bytes);
  port.set_speed(end.speed);
  return port;
}

Result<RdmaEnd> from_wire(const doctor_wire::Port& port) {
  constexpr std::uint32_t kSmallestMtu = 256;
  constexpr std::uint32_t kLargestMtu = 4096;
  if (!port.obstacle().empty()) return without(printable(port.obstacle()));
  RdmaEnd end;
  if (port.device().empty()) return refused("device");
  if (port.gid().size() != end.gid.bytes.size()) return refused("gid");
  if (!doctor_wire::LinkLayer_IsValid(port.link_layer())) return refused("link_layer");
  if (!doctor_wire::GidType_IsValid(port.gid_type())) return refused("gid_type");
  if (port.mtu_bytes() < kSmallestMtu || port.mtu_bytes() > kLargestMtu) {
    return refused("mtu_bytes");
  }
  end.device = printable(port.device());
  end.port = port.number();
  end.link_layer = static_cast<verbs::LinkLayer>(port.link_layer());
  std::copy(port.gid().begin(), port.gid().end(), end.gid.bytes.begin());
  end.gid.index = port.gid_index();
  end.gid.type = static_cast<verbs::GidType>(port.gid_type());
  end.gid_reason = printable(port.gid_reason());
  end.mtu_bytes = port.mtu_bytes();
  end.speed = printable(port.speed());
  return end;
}

}  // namespace phub::doctor
