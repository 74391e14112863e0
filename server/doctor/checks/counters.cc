// What the ports have counted since they came up: errors, losses, congestion.
#include <fmt/format.h>

#include <array>
#include <vector>

#include "common/text/table.h"
#include "server/doctor/checks/checks.h"

namespace phub::doctor {
namespace {

using transport::verbs::CounterKind;
using transport::verbs::kind_of;

constexpr const char* kAskForGrowth = "does it grow? then ";

struct Cause {
  CounterKind kind;
  const char* cure;  // when it grows
};

constexpr std::array<Cause, 4> kCauses = {{
    {CounterKind::kLinkErrors, "look at the cable, the transceiver and the switch port"},
    {CounterKind::kLosses,
     "packets are lost: switch PFC or ECN on for this traffic class, on the "
     "cards and on every switch"},
    {CounterKind::kReceiversNotReady, "a peer had no receive posted in time: is it overloaded?"},
    {CounterKind::kRefused,
     "peers asked for memory or partitions that are not theirs, or died in between"},
}};

std::string join(const std::vector<Counter>& counters) {
  std::string text;
  for (const Counter& counter : counters) {
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", counter.name, counter.value);
  }
  return text;
}

// A finding for each cause that has counted; `watched` grows by the counters that were looked at.
Findings errors_of(const std::vector<Counter>& counters, const std::string& where,
                   const std::string& before_cure, std::size_t& watched) {
  Findings findings;
  for (const Cause& cause : kCauses) {
    std::vector<Counter> counted;
    for (const Counter& counter : counters) {
      if (kind_of(counter.name) != cause.kind) continue;
      ++watched;
      if (counter.value != 0) counted.push_back(counter);
    }
    if (counted.empty()) continue;
    findings.push_back({Severity::kWarn, "counters", where,
                        fmt::format("{}: {}", name_of(cause.kind), join(counted)),
                        before_cure + cause.cure});
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
    const std::string where = human_port(port.device, port.port);
    std::size_t watched = 0;
    const Findings errors = errors_of(port.counters, where, kAskForGrowth, watched);
    append(findings, errors);
    if (errors.empty()) {
      findings.push_back({Severity::kOk, "counters", where,
                          fmt::format("no errors; counters of them: {}", watched)});
    }
    std::vector<Counter> congestion = port.counters;
    std::erase_if(congestion, [](const Counter& counter) {
      return kind_of(counter.name) != CounterKind::kCongestion;
    });
    if (congestion.empty()) continue;
    findings.push_back({Severity::kOk, "congestion", where, join(congestion)});
  }
  return findings;
}

}  // namespace phub::doctor
