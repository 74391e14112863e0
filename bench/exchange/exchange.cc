#include "bench/exchange/exchange.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

#include "bench/base/keys.h"

namespace phub::bench {
namespace {

bool is_peer(SystemKind kind) { return kind != SystemKind::kPhub && kind != SystemKind::kRoof; }

// Whether an already started system serves for this kind and work too.
bool serves(const System& system, SystemKind kind, const Work& work) {
  if (system.kind != kind || system.work.workers != work.workers) return false;
  switch (kind) {
    case SystemKind::kPhub:
      return false;
    case SystemKind::kGlooRing:
    case SystemKind::kGlooHalvingDoubling:
      return true;
    case SystemKind::kOpenMpi:
      return system.work.transport == work.transport;
    case SystemKind::kRoof:
      return state_arrays(system.work.rule) == state_arrays(work.rule);
  }
  return false;
}

Status add_comparison(const ExchangeOptions& options, const Work& work, Places& places,
                      Lineup& lineup) {
  Comparison comparison{.work = work, .phub = nullptr, .rows = {}};
  for (const SystemKind kind : options.systems) {
    // In a list of rules the peers, who only sum, take part where they can.
    if (options.rules.size() > 1 && is_peer(kind) && work.rule != RuleKind::kSum) continue;
    auto found = std::find_if(lineup.systems.begin(), lineup.systems.end(),
                              [&](const auto& system) { return serves(*system, kind, work); });
    if (found == lineup.systems.end()) {
      PHUB_ASSIGN_OR_RETURN(auto system, start_system(kind, work, places));
      found = lineup.systems.insert(lineup.systems.end(), std::move(system));
    }
    comparison.rows.push_back(found->get());
    if (kind == SystemKind::kPhub) comparison.phub = found->get();
  }
  if (options.encrypt && work.transport == "tcp" && comparison.phub != nullptr) {
    Work encrypted = work;
    encrypted.encrypt = true;
    PHUB_ASSIGN_OR_RETURN(auto system, start_system(SystemKind::kPhub, encrypted, places));
    comparison.rows.push_back(system.get());
    lineup.systems.push_back(std::move(system));
  }
  if (options.vote && has_parameters(work.rule) && comparison.phub != nullptr) {
    Work voted = work;
    voted.vote = true;
    PHUB_ASSIGN_OR_RETURN(auto system, start_system(SystemKind::kPhub, voted, places));
    comparison.rows.push_back(system.get());
    lineup.systems.push_back(std::move(system));
  }
  lineup.comparisons.push_back(std::move(comparison));
  return {};
}

}  // namespace

Result<Lineup> start_lineup(const ExchangeOptions& options, Places& places) {
  Lineup lineup;
  for (const std::string& transport : options.transports) {
    for (const std::uint32_t workers : options.workers) {
      for (const RuleKind rule : options.rules) {
        Work work = options.work;
        work.transport = transport;
        work.workers = workers;
        work.rule = rule;
        PHUB_RETURN_IF_ERROR(add_comparison(options, work, places, lineup));
      }
    }
  }
  return lineup;
}

Status measure(Lineup& lineup, const BlockPlan& plan) {
  PHUB_RETURN_IF_ERROR(run_blocks(lineup.systems, plan));
  for (const auto& system : lineup.systems) {
    if (!system->servers) continue;
    PHUB_ASSIGN_OR_RETURN(system->memory, system->servers->memory());
  }
  return {};
}

Status failures_of(const Lineup& lineup) {
  std::string failures;
  for (const auto& system : lineup.systems) {
    if (system->failure.empty()) continue;
    failures += (failures.empty() ? "" : "; ") + system->failure;
  }
  return failures.empty() ? Status() : Status(Code::kDataLoss, failures);
}

Status run_exchange(const ExchangeOptions& options) {
  PHUB_ASSIGN_OR_RETURN([[maybe_unused]] const auto keys,
                        make_keys(options.work.keys, options.work.elements));
  PHUB_ASSIGN_OR_RETURN(const auto places, Places::create());
  PHUB_ASSIGN_OR_RETURN(Lineup lineup, start_lineup(options, *places));
  PHUB_RETURN_IF_ERROR(measure(lineup, options.plan));
  for (const Comparison& comparison : lineup.comparisons) {
    if (options.json) {
      print_json("exchange", comparison, options.plan);
    } else {
      print_comparison(comparison, options.plan);
    }
  }
  if (!options.json) {
    fmt::print(
        "\nGB/s: workers x payload x 2 (pushed and received) / p50. time / phub: block by "
        "block, the median;\nabove 1 phub is faster.\n");
  }
  const Status right = failures_of(lineup);
  for (const auto& system : lineup.systems) system->group->stop();
  return right;
}

}  // namespace phub::bench
