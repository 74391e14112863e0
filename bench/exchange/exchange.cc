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
  if (kind == SystemKind::kPhub) return false;
  if (kind == SystemKind::kRoof) return state_arrays(system.work.rule) == state_arrays(work.rule);
  return kind != SystemKind::kOpenMpi || system.work.transport == work.transport;
}

Status add_comparison(const ExchangeOptions& options, const Work& work, Places& places,
                      Lineup& lineup) {
  Comparison comparison{.work = work, .phub = nullptr, .rows = {}};
  const auto add = [&](SystemKind kind, const Work& its_work) -> Status {
    PHUB_ASSIGN_OR_RETURN(const System* system, lineup.start(kind, its_work, places));
    comparison.rows.push_back(system);
    return {};
  };
  for (const SystemKind kind : options.systems) {
    // In a list of rules the peers, who only sum, take part where they can.
    if (options.rules.size() > 1 && is_peer(kind) && work.rule != RuleKind::kSum) continue;
    const auto found =
        std::find_if(lineup.systems.begin(), lineup.systems.end(),
                     [&](const auto& system) { return serves(*system, kind, work); });
    if (found == lineup.systems.end()) {
      PHUB_RETURN_IF_ERROR(add(kind, work));
    } else {
      comparison.rows.push_back(found->get());
    }
    if (kind == SystemKind::kPhub) comparison.phub = comparison.rows.back();
  }
  if (comparison.phub != nullptr && options.encrypt && work.transport == "tcp") {
    Work encrypted = work;
    encrypted.encrypt = true;
    PHUB_RETURN_IF_ERROR(add(SystemKind::kPhub, encrypted));
  }
  if (comparison.phub != nullptr && options.vote && has_parameters(work.rule)) {
    Work voted = work;
    voted.vote = true;
    PHUB_RETURN_IF_ERROR(add(SystemKind::kPhub, voted));
  }
  if (comparison.phub != nullptr && options.watch) {
    Work watched = work;
    watched.watch = true;
    PHUB_RETURN_IF_ERROR(add(SystemKind::kPhub, watched));
  }
  if (comparison.phub != nullptr && options.checksums) {
    Work checked = work;
    checked.checksums = true;
    PHUB_RETURN_IF_ERROR(add(SystemKind::kPhub, checked));
  }
  if (comparison.phub != nullptr && options.tcp_streams > 1 && work.transport == "tcp") {
    Work spread = work;
    spread.tcp_streams = options.tcp_streams;
    PHUB_RETURN_IF_ERROR(add(SystemKind::kPhub, spread));
  }
  lineup.comparisons.push_back(std::move(comparison));
  return {};
}

}  // namespace

Result<const System*> Lineup::start(SystemKind kind, const Work& work, Places& places) {
  PHUB_ASSIGN_OR_RETURN(auto system, start_system(kind, work, places));
  return systems.emplace_back(std::move(system)).get();
}

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

void print_lineup(const Lineup& lineup, const BlockPlan& plan, bool json) {
  for (const Comparison& comparison : lineup.comparisons) {
    if (json) {
      print_json("exchange", comparison, plan);
    } else {
      print_comparison(comparison, plan);
    }
  }
}

Status finish(const Lineup& lineup) {
  std::string failures;
  for (const auto& system : lineup.systems) {
    system->group->stop();
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
  print_lineup(lineup, options.plan, options.json);
  if (!options.json) {
    fmt::print(
        "\nGB/s: workers x payload x 2 (pushed and received) / p50. time / phub: block by "
        "block, the median;\nabove 1 phub is faster.\n");
  }
  return finish(lineup);
}

}  // namespace phub::bench
