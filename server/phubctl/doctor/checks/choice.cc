// The port and the GID that would be used.
#include <fmt/format.h>

#include "common/text/table.h"
#include "common/transport/verbs/device/gid.h"
#include "common/transport/verbs/device/port_choice.h"
#include "server/phubctl/doctor/checks/checks.h"

namespace phub::phubctl::doctor {
namespace {

using transport::verbs::GidType;
using transport::verbs::RatedGid;

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

Finding check_gid(const transport::verbs::Port& port, const Choices& choices,
                  const std::string& where) {
  for (const RatedGid& entry : transport::verbs::rate_gids(port, std::nullopt, choices.gid_index)) {
    if (entry.chosen) return finding_of(entry, where);
  }
  const auto gid = transport::verbs::choose_gid(port, std::nullopt, choices.gid_index);
  return {Severity::kFail, "gid", where, "none can be used", gid.error().message()};
}

}  // namespace

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

}  // namespace phub::phubctl::doctor
