#include "server/phubctl_doctor.h"

#include <fmt/format.h>

#include <algorithm>

#include "server/phubctl_client.h"
#include "server/phubctl_table.h"

namespace phub::phubctl {
namespace doctor {
namespace {

void append(Findings& all, const Findings& some) {
  all.insert(all.end(), some.begin(), some.end());
}

}  // namespace

const char* word_of(Severity severity) {
  if (severity == Severity::kOk) return "ok";
  return severity == Severity::kWarn ? "warn" : "fail";
}

Severity severity_of(const Findings& findings) {
  Severity worst = Severity::kOk;
  for (const Finding& finding : findings) worst = std::max(worst, finding.severity);
  return worst;
}

Findings examine(const Host& host, const Choices& choices) {
  Findings all = check_devices(host);
  append(all, check_ports(host));
  append(all, check_choice(host, choices));
  append(all, check_mtu(host));
  append(all, check_counters(host));
  append(all, check_numa(host));
  append(all, check_memlock(host));
  append(all, check_huge_pages(host));
  append(all, check_tcp(host));
  return all;
}

}  // namespace doctor

Status examine_host(const DoctorOptions& options, bool as_json) {
  const doctor::Host host = doctor::read_host(options.paths);
  const doctor::Findings findings = doctor::examine(host, options.choices);
  print(as_json ? to_json(host, options.choices, findings)
                : to_table(host, options.choices, findings));
  const auto failed = std::count_if(findings.begin(), findings.end(), [](const auto& finding) {
    return finding.severity == doctor::Severity::kFail;
  });
  if (failed == 0) return {};
  return {Code::kFailedPrecondition,
          fmt::format("doctor: {} of {} checks failed; the cures are in the report", failed,
                      findings.size())};
}

}  // namespace phub::phubctl
