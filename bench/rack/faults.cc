#include "bench/rack/faults.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "bench/rack/scenario.h"

namespace phub::bench {
namespace {

constexpr double kLateSecondsMax = 45;  // the bench waits a minute for its workers
constexpr double kMomentSecondsMax = 3600;
constexpr std::uint32_t kFaultRoundsMax = 1'000'000;

bool is_slow_start(const RackFault& fault) { return fault.kind() == RackFault::SLOW_START; }

// What is wrong with one of them; empty: nothing.
std::string wrong_target(const RackFault& fault, const RackScenario& scenario) {
  if (!fault.has_kind()) return "has no kind; set kind: KILL_SERVER, or another of RackFault.Kind";
  const std::string kind = RackFault::Kind_Name(fault.kind());
  if (fault.rack() >= static_cast<std::uint32_t>(scenario.racks_size())) {
    return fmt::format("rack {} is not there; racks are 0 to {}", fault.rack(),
                       scenario.racks_size() - 1);
  }
  const Rack& rack = scenario.racks(static_cast<int>(fault.rack()));
  const bool may_server = fault.kind() != RackFault::KILL_WORKER;
  const bool may_worker = fault.kind() != RackFault::KILL_SERVER;
  const bool may_host = fault.kind() != RackFault::UPLINK_DOWN;
  if (fault.has_server() && !(may_server && may_host)) {
    return fmt::format("server has no effect with {}; remove it", kind);
  }
  if (fault.has_worker() && !(may_worker && may_host)) {
    return fmt::format("worker has no effect with {}; remove it", kind);
  }
  if (fault.has_server() && fault.has_worker()) return "hits one host; set server or worker";
  if (fault.has_server() && fault.server() >= rack.servers()) {
    return fmt::format("server {} is not there; rack {} has {}", fault.server(), fault.rack(),
                       rack.servers());
  }
  if (fault.has_worker() && fault.worker() >= rack.workers()) {
    return fmt::format("worker {} is not there; rack {} has {}", fault.worker(), fault.rack(),
                       rack.workers());
  }
  const bool is_of_host = may_host && !is_slow_start(fault);
  if (is_of_host && !fault.has_server() && !fault.has_worker()) {
    return fmt::format("{} hits one host; set server or worker", kind);
  }
  if (!may_host && scenario.racks_size() == 1) return "a single rack has no uplink";
  return {};
}

std::string wrong_moment(const RackFault& fault, const RackScenario& scenario) {
  if (is_slow_start(fault)) {
    if (fault.has_at_round() || fault.has_at_s()) {
      return "SLOW_START is at the start; remove at_round and at_s";
    }
    if (fault.for_s() > 0 && fault.for_s() <= kLateSecondsMax) return {};
    return fmt::format("for_s {:g} is outside the allowed range of 0.1 to {:g}", fault.for_s(),
                       kLateSecondsMax);
  }
  if (fault.has_for_s()) return "for_s is for SLOW_START; remove it";
  if (fault.has_at_round() && scenario.has_training()) {
    return "at_round is for exchanges; in a training set at_s";
  }
  if (fault.at_round() > kFaultRoundsMax) {
    return fmt::format("at_round {} is more than {}", fault.at_round(), kFaultRoundsMax);
  }
  if (fault.at_round() != scenario.faults(0).at_round()) {
    return "all faults come after the same at_round; set at_s for those that come later";
  }
  if (fault.at_s() >= 0 && fault.at_s() <= kMomentSecondsMax) return {};
  return fmt::format("at_s {:g} is outside the allowed range of 0 to {:g}", fault.at_s(),
                     kMomentSecondsMax);
}

bool is_target(const RackFault& fault, const RackHost& host) {
  if (fault.rack() != host.rack) return false;
  return (!fault.has_server() && !fault.has_worker()) || target_of(fault) == host.name;
}

// "worker 1" is not in "worker 12", nor 10.77.0.1 in 10.77.0.12.
bool has_word(std::string_view text, std::string_view word) {
  const auto continues = [](char letter) {
    return std::isalnum(static_cast<unsigned char>(letter)) != 0;
  };
  for (std::size_t at = 0; (at = text.find(word, at)) != std::string_view::npos; ++at) {
    const std::size_t end = at + word.size();
    const bool begins = at == 0 || !continues(text[at - 1]);
    if (begins && (end == text.size() || !continues(text[end]))) return true;
  }
  return false;
}

}  // namespace

void check_faults(ConfigCheck& check, const RackScenario& scenario) {
  const bool has_slow = std::any_of(scenario.faults().begin(), scenario.faults().end(),
                                    [](const RackFault& fault) { return is_slow_start(fault); });
  for (int i = 0; i < scenario.faults_size(); ++i) {
    const RackFault& fault = scenario.faults(i);
    std::string wrong = wrong_target(fault, scenario);
    if (wrong.empty()) wrong = wrong_moment(fault, scenario);
    if (wrong.empty() && has_slow && !is_slow_start(fault)) {
      wrong = "SLOW_START beside it: make two scenarios of it";
    }
    if (wrong.empty() && is_colocated(scenario)) {
      wrong = "are for hosts with one program; remove them, or racks' colocated";
    }
    check.require(wrong.empty(), "faults", wrong, i);
  }
  check.in_range("fault_deadline_s", scenario.fault_deadline_s(), 1U, 3600U);
  check.unused_unless(scenario.faults_size() > 0, "fault_deadline_s", "without faults");
}

std::string target_of(const RackFault& fault) {
  if (fault.kind() == RackFault::UPLINK_DOWN) return fmt::format("r{} uplink", fault.rack());
  if (fault.has_server()) return fmt::format("r{}s{}", fault.rack(), fault.server());
  if (fault.has_worker()) return fmt::format("r{}w{}", fault.rack(), fault.worker());
  return fmt::format("rack {}", fault.rack());
}

std::string fault_text(const RackFault& fault) {
  const std::string what =
      fmt::format("{} {}", RackFault::Kind_Name(fault.kind()), target_of(fault));
  if (is_slow_start(fault)) return fmt::format("{} by {:g} s", what, fault.for_s());
  const std::string since =
      fault.has_at_round() ? fmt::format("{} whole round(s)", fault.at_round()) : "the start";
  return fmt::format("{}, {:g} s after {}", what, fault.at_s(), since);
}

double late_seconds(const RackScenario& scenario, const RackHost& host) {
  double seconds = 0;
  for (const RackFault& fault : scenario.faults()) {
    if (is_slow_start(fault) && is_target(fault, host)) {
      seconds = std::max(seconds, fault.for_s());
    }
  }
  return seconds;
}

bool names_fault(const Fabric& fabric, const RackFault& fault, const RackHost& host,
                 std::string_view error) {
  const bool is_of_rack = fault.kind() == RackFault::UPLINK_DOWN;
  const auto is_behind = [&](const RackHost& other) {
    return is_of_rack ? other.rack == fault.rack() : is_target(fault, other);
  };
  // Who is at fault himself sees all others go.
  const bool is_inside = is_behind(host);
  std::uint32_t worker = 0;
  for (const RackHost& other : fabric.hosts) {
    const std::string number = other.workers > 0 ? fmt::format("worker {}", worker++) : "";
    if (is_behind(other) == is_inside) continue;
    if (has_word(error, other.address) || (!number.empty() && has_word(error, number))) return true;
  }
  return false;
}

}  // namespace phub::bench
