// What the ports have counted since they came up: errors, losses, congestion.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "server/phubctl_doctor_checks.h"

namespace phub::phubctl::doctor {
namespace {

constexpr const char* kAskForGrowth = "does it grow? then ";

struct Cause {
  const char* check;
  const char* cure;  // when it grows
  std::vector<std::string_view> counters;
};

// Names of the InfiniBand architecture, of mlx5, and of Soft-RoCE.
const std::array<Cause, 4>& causes() {
  static const std::array<Cause, 4> kAll = {{
      {"link errors",
       "look at the cable, the transceiver and the switch port",
       {"symbol_error", "link_error_recovery", "link_downed", "port_rcv_errors",
        "port_rcv_remote_physical_errors", "local_link_integrity_errors", "rx_icrc_encapsulated",
        "send_err"}},
      {"losses",
       "packets are lost: switch PFC or ECN on for this traffic class, on the "
       "cards and on every switch",
       {"port_xmit_discards", "excessive_buffer_overrun_errors", "VL15_dropped", "out_of_sequence",
        "out_of_seq_request", "packet_seq_err", "rcvd_seq_err", "implied_nak_seq_err",
        "local_ack_timeout_err", "retry_exceeded_err", "completer_retry_err"}},
      {"receivers not ready",
       "a peer had no receive posted in time: is it overloaded?",
       {"out_of_buffer", "rnr_nak_retry_err", "rcvd_rnr_err", "send_rnr_err",
        "retry_rnr_exceeded_err"}},
      {"refused",
       "peers asked for memory or partitions that are not theirs, or died in between",
       {"port_xmit_constraint_errors", "port_rcv_constraint_errors", "req_remote_access_errors",
        "resp_remote_access_errors", "req_remote_invalid_request", "resp_local_length_error"}},
  }};
  return kAll;
}

// Signs that congestion is being managed; not errors.
bool is_congestion(std::string_view name) {
  for (const std::string_view part : {"cnp", "ecn", "pause", "pfc", "xmit_wait", "congest"}) {
    if (name.find(part) != std::string_view::npos) return true;
  }
  return false;
}

std::string join(const std::vector<Counter>& counters) {
  std::string text;
  for (const Counter& counter : counters) {
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", counter.name, counter.value);
  }
  return text;
}

std::vector<Counter> congestion_of(const PortCounters& port) {
  std::vector<Counter> found;
  std::copy_if(port.counters.begin(), port.counters.end(), std::back_inserter(found),
               [](const Counter& counter) { return is_congestion(counter.name); });
  return found;
}

// A finding for each cause that has counted; `watched` grows by the counters that were looked at.
Findings errors_of(const std::vector<Counter>& counters, const std::string& where,
                   const std::string& before_cure, std::size_t& watched) {
  Findings findings;
  for (const Cause& cause : causes()) {
    std::vector<Counter> counted;
    for (const Counter& counter : counters) {
      const auto& names = cause.counters;
      if (std::find(names.begin(), names.end(), counter.name) == names.end()) continue;
      ++watched;
      if (counter.value != 0) counted.push_back(counter);
    }
    if (counted.empty()) continue;
    findings.push_back({Severity::kWarn, "counters", where,
                        fmt::format("{}: {}", cause.check, join(counted)),
                        before_cure + cause.cure});
  }
  return findings;
}

Findings errors_of(const PortCounters& port, const std::string& where) {
  std::size_t watched = 0;
  Findings findings = errors_of(port.counters, where, kAskForGrowth, watched);
  if (findings.empty()) {
    findings.push_back({Severity::kOk, "counters", where,
                        fmt::format("no errors; counters of them: {}", watched)});
  }
  return findings;
}

}  // namespace

Findings check_risen(const std::vector<Counter>& risen, const std::string& where) {
  std::size_t watched = 0;
  Findings findings = errors_of(risen, where, "", watched);
  for (Finding& finding : findings) finding.text = "while measuring, " + finding.text;
  if (findings.empty()) {
    findings.push_back({Severity::kOk, "counters", where, "no errors while measuring"});
  }
  return findings;
}

Findings check_counters(const Host& host) {
  Findings findings;
  for (const PortCounters& port : host.counters) {
    if (port.counters.empty()) continue;
    const std::string where = place_of(port.device, port.port);
    for (const Finding& finding : errors_of(port, where)) findings.push_back(finding);
    const std::vector<Counter> congestion = congestion_of(port);
    if (congestion.empty()) continue;
    findings.push_back({Severity::kOk, "congestion", where, join(congestion)});
  }
  return findings;
}

}  // namespace phub::phubctl::doctor
