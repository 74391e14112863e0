#include "server/phubctl/doctor/doctor.h"

#include <fmt/format.h>

#include <algorithm>

#include "server/doctor/peer/end.h"
#include "server/doctor/peer/judge.h"
#include "server/doctor/peer/listen.h"
#include "server/doctor/peer/peer.h"
#include "server/doctor/peer/socket.h"
#include "server/phubctl/commands/client.h"
#include "server/phubctl/commands/progress_line.h"

namespace phub::doctor {
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

}  // namespace phub::doctor

namespace phub::phubctl {

Status examine_host(const DoctorOptions& options, bool as_json, const std::atomic<bool>& stop) {
  const doctor::Host host = doctor::read_host(options.paths);
  doctor::Findings findings = doctor::examine(host, options.choices);
  std::optional<doctor::Meeting> meeting;
  if (!options.peer.empty()) {
    PHUB_ASSIGN_OR_RETURN(const Address address, doctor::parse_peer(options.peer));
    const ProgressLine progress;
    meeting = doctor::meet({.address = address,
                            .tls = options.tls,
                            .paths = options.paths,
                            .choices = options.choices,
                            .seconds = options.seconds,
                            .limits = {.stop = &stop},
                            .progress = [&](const std::string& what) { progress.show(what); }});
    doctor::append(findings, doctor::judge(*meeting, options.choices));
  }
  print(as_json ? to_json(host, options.choices, findings, meeting ? &*meeting : nullptr)
                : to_table(host, options.choices, findings));
  const auto failed = std::count_if(findings.begin(), findings.end(), [](const auto& finding) {
    return finding.severity == doctor::Severity::kFail;
  });
  if (failed == 0) return {};
  return {Code::kFailedPrecondition,
          fmt::format("doctor: {} of {} checks failed; the cures are in the report", failed,
                      findings.size())};
}

Status listen_for_peers(const DoctorOptions& options, bool as_json, const std::atomic<bool>& stop) {
  const std::string text =
      options.listen.empty() ? fmt::format("0.0.0.0:{}", doctor::kDefaultPort) : options.listen;
  PHUB_ASSIGN_OR_RETURN(const Address address, doctor::parse_peer(text));
  PHUB_ASSIGN_OR_RETURN(const auto listener, doctor::Listener::create({.address = address,
                                                                       .tls = options.tls,
                                                                       .paths = options.paths,
                                                                       .choices = options.choices,
                                                                       .limits = {.stop = &stop},
                                                                       .once = options.once}));
  Address own = listener->address();
  const std::string where = to_string(own);
  if (own.host == "0.0.0.0" || own.host == "::") own.host = doctor::host_name();
  print(as_json
            ? fmt::format("{{\"listening\": \"{}\"}}", where)
            : fmt::format("listening on {}, {}, until Ctrl-C; on the other host: phubctl {}doctor "
                          "--peer {}",
                          where,
                          options.tls.empty() ? "without authentication"
                                              : "for who has a certificate of the same CA",
                          options.tls.empty() ? "" : "--credentials FOLDER ", to_string(own)));
  std::fflush(stdout);
  return listener->serve([](const std::string& line) { fmt::print(stderr, "{}\n", line); });
}

}  // namespace phub::phubctl
