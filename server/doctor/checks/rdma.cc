// RDMA devices, their ports and MTUs; the port and the GID that would be used.
#include <fmt/format.h>

#include <algorithm>

#include "common/text/table.h"
#include "common/transport/verbs/device/gid.h"
#include "common/transport/verbs/device/port_choice.h"
#include "server/doctor/checks/checks.h"

namespace phub::doctor {
namespace {

using transport::verbs::DeviceInfo;
using transport::verbs::GidType;
using transport::verbs::LinkLayer;
using transport::verbs::Port;
using transport::verbs::RatedGid;

// What InfiniBand's and RoCE's largest packet holds, and what fits a standard Ethernet frame.
constexpr std::uint32_t kLargestMtu = 4096;
constexpr std::uint32_t kStandardFrameMtu = 1024;

constexpr const char* kShowDevices =
    "install ibverbs-providers; modprobe ib_uverbs; let this user read and write "
    "/dev/infiniband/uverbs*; give a container --device=/dev/infiniband";
constexpr const char* kDoWithout = "use another device, or the transports tcp and shm";

std::string link_of(const Port& port) {
  std::string text = name_of(port.link_layer);
  if (!port.speed.empty()) text += ", " + port.speed;
  if (!port.netdev.empty()) text += ", interface " + port.netdev;
  if (port.link_layer == LinkLayer::kInfiniBand) text += fmt::format(", lid {}", port.lid);
  return text;
}

std::string cure_of_state(const Port& port) {
  if (port.link_layer == LinkLayer::kInfiniBand) {
    return port.state == "down" ? "is the cable in, and the port not disabled (ibportstate)?"
                                : "start a subnet manager in this fabric (opensm, or the switch's)";
  }
  return fmt::format("is the cable in? ip link set dev {} up",
                     port.netdev.empty() ? "INTERFACE" : port.netdev);
}

Finding finding_of(const DeviceInfo& device) {
  if (!device.unusable.empty()) {
    return {Severity::kWarn, "device", device.name, device.unusable,
            device.ports.empty() ? kShowDevices : kDoWithout};
  }
  return {.check = "device",
          .where = device.name,
          .text = fmt::format("{} port{}; up to {} queue pairs of {} requests, {} regions",
                              device.ports.size(), device.ports.size() == 1 ? "" : "s",
                              device.limits.max_qp, device.limits.max_qp_wr, device.limits.max_mr)};
}

Finding mtu_of(const DeviceInfo& device, const Port& port) {
  const std::uint32_t mtu = port.mtu_bytes;
  Finding finding{.check = "mtu",
                  .where = human_port(device.name, port.number),
                  .text = fmt::format("{} bytes of at most {}", mtu, port.mtu_bytes_max)};
  const bool is_ethernet = port.link_layer == LinkLayer::kEthernet;
  if (is_ethernet && mtu <= kStandardFrameMtu) {
    finding.severity = Severity::kWarn;
    finding.text += mtu == kStandardFrameMtu ? ": jumbo frames are off"
                                             : ": smaller than a standard frame takes";
    finding.cure = fmt::format("on both ends: ip link set dev {} mtu 9000; and on every switch",
                               port.netdev.empty() ? "INTERFACE" : port.netdev);
  }
  if (!is_ethernet && mtu < kLargestMtu) {
    finding.severity = Severity::kWarn;
    finding.cure = "mtu=5 (4096 bytes) in the subnet manager's partitions.conf";
  }
  return finding;
}

Finding finding_of(const RatedGid& entry, const std::string& where) {
  const transport::verbs::Gid& gid = entry.gid;
  Finding finding{.check = "gid",
                  .where = where,
                  .text = fmt::format("index {}, {}: {}", gid.index, to_string(gid), entry.reason)};
  if (gid.type == GidType::kInfiniBand) return finding;
  if (gid.type == GidType::kRoceV1) {
    finding.cure =
        "RoCE v1 crosses no router and knows no ECN: switch v2 on in the card's settings";
  } else if (is_link_local(gid)) {
    finding.cure =
        fmt::format("link-local reaches this segment only: ip address add ADDRESS/PREFIX dev {}",
                    gid.netdev.empty() ? "INTERFACE" : gid.netdev);
  }
  finding.severity = finding.cure.empty() ? Severity::kOk : Severity::kWarn;
  return finding;
}

Finding check_gid(const Port& port, const Choices& choices, const std::string& where) {
  for (const RatedGid& entry : transport::verbs::rate_gids(port, std::nullopt, choices.gid_index)) {
    if (entry.chosen) return finding_of(entry, where);
  }
  const auto gid = transport::verbs::choose_gid(port, std::nullopt, choices.gid_index);
  return {Severity::kFail, "gid", where, "none can be used", gid.error().message()};
}

template <typename Visit>
void for_each_port(const Host& host, Visit visit) {
  for (const DeviceInfo& device : host.devices) {
    for (const Port& port : device.ports) visit(device, port);
  }
}

}  // namespace

Findings check_devices(const Host& host) {
  Findings findings;
  if (!host.devices_error.empty()) {
    findings.push_back({Severity::kFail, "device", "", host.devices_error, kShowDevices});
  }
  for (const std::string& name : host.kernel_devices) {
    const bool is_listed = std::any_of(host.devices.begin(), host.devices.end(),
                                       [&](const DeviceInfo& info) { return info.name == name; });
    if (is_listed) continue;
    findings.push_back({host.devices.empty() ? Severity::kFail : Severity::kWarn, "device", name,
                        "the kernel has it, libibverbs does not", kShowDevices});
  }
  for (const DeviceInfo& device : host.devices) findings.push_back(finding_of(device));
  if (findings.empty()) {
    findings.push_back(
        {Severity::kWarn, "device", "", "no RDMA device", transport::verbs::kWithoutDevices});
  }
  return findings;
}

Findings check_ports(const Host& host) {
  Findings findings;
  for_each_port(host, [&](const DeviceInfo& device, const Port& port) {
    Finding finding{.check = "port",
                    .where = human_port(device.name, port.number),
                    .text = port.state + ": " + link_of(port)};
    if (!port.active) {
      finding.severity = Severity::kWarn;
      finding.cure = cure_of_state(port);
    }
    findings.push_back(finding);
  });
  return findings;
}

Findings check_choice(const Host& host, const Choices& choices) {
  if (host.devices.empty() && choices.devices.empty()) return {};
  const auto choice = transport::verbs::choose_port(host.devices, choices.devices);
  if (!choice) {
    return {{Severity::kFail, "choice", "", "no port can be used", choice.error().message()}};
  }
  const std::string where = human_port(choice->device.name, choice->port.number);
  return {{Severity::kOk, "choice", where, "would be used"},
          check_gid(choice->port, choices, where)};
}

Findings check_mtu(const Host& host) {
  Findings findings;
  for_each_port(host, [&](const DeviceInfo& device, const Port& port) {
    if (port.active) findings.push_back(mtu_of(device, port));
  });
  return findings;
}

}  // namespace phub::doctor
