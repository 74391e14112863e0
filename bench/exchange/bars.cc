// "phub-bench bars": every bar that the product is held to, in one run.
#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "bench/base/keys.h"
#include "bench/base/statistics.h"
#include "bench/compare/commands.h"
#include "bench/compare/report.h"
#include "bench/exchange/exchange.h"

namespace phub::bench {
namespace {

constexpr std::uint32_t kWorkers = 4;
constexpr std::uint64_t kSmallElements = 8192;  // one 32 KiB chunk of fp32

struct Bar {
  std::string measure;
  double limit = 0.0;
  bool at_most = true;
  Spread value;

  bool met() const { return at_most ? value.median <= limit : value.median >= limit; }
};

// The systems of the large run, in the order in which they take turns.
enum BarRole : std::size_t {
  kShm,
  kShmNesterov,
  kShmTwice,  // with twice the workers
  kRoof,
  kRoofNesterov,
  kOpenMpiShm,
  kTcp,
  kGloo,
  kHalvingDoubling,
  kOpenMpiTcp,
  kTcpTwice,
};

Work part_of(const Work& base, const char* transport, std::uint32_t workers, RuleKind rule) {
  Work work = base;
  work.transport = transport;
  work.workers = workers;
  work.rule = rule;
  return work;
}

Comparison compare(const Lineup& lineup, const std::vector<BarRole>& roles) {
  const System* phub = lineup.systems[roles.front()].get();
  Comparison comparison{.work = phub->work, .phub = phub, .rows = {}};
  for (const BarRole role : roles) comparison.rows.push_back(lineup.systems[role].get());
  return comparison;
}

Result<Lineup> start_large(const Work& base, Places& places) {
  constexpr RuleKind kSum = RuleKind::kSum;
  const Work shm = part_of(base, "shm", kWorkers, kSum);
  const Work tcp = part_of(base, "tcp", kWorkers, kSum);
  const Work nesterov = part_of(base, "shm", kWorkers, RuleKind::kNesterov);
  const std::vector<std::pair<SystemKind, Work>> parts = {
      {SystemKind::kPhub, shm},
      {SystemKind::kPhub, nesterov},
      {SystemKind::kPhub, part_of(base, "shm", 2 * kWorkers, kSum)},
      {SystemKind::kRoof, shm},
      {SystemKind::kRoof, nesterov},
      {SystemKind::kOpenMpi, shm},
      {SystemKind::kPhub, tcp},
      {SystemKind::kGlooRing, tcp},
      {SystemKind::kGlooHalvingDoubling, tcp},
      {SystemKind::kOpenMpi, tcp},
      {SystemKind::kPhub, part_of(base, "tcp", 2 * kWorkers, kSum)}};
  Lineup lineup;
  for (const auto& [kind, work] : parts) {
    PHUB_ASSIGN_OR_RETURN([[maybe_unused]] const auto started, lineup.start(kind, work, places));
  }
  lineup.comparisons = {compare(lineup, {kShm, kGloo, kHalvingDoubling, kOpenMpiShm, kRoof}),
                        compare(lineup, {kShmNesterov, kRoofNesterov}),
                        compare(lineup, {kShmTwice}),
                        compare(lineup, {kTcp, kGloo, kHalvingDoubling, kOpenMpiTcp, kRoof}),
                        compare(lineup, {kTcpTwice})};
  return lineup;
}

// Time of the Nesterov exchange over that of the sum plus what the state's streams cost the roof.
Spread nesterov_ratio(const Lineup& lineup) {
  const auto seconds = [&](BarRole role, std::size_t block) {
    return median(lineup.systems[role]->blocks[block]);
  };
  std::vector<double> ratios;
  for (std::size_t i = 0; i < lineup.systems[kShm]->blocks.size(); ++i) {
    const double streams = seconds(kRoofNesterov, i) - seconds(kRoof, i);
    ratios.push_back(seconds(kShmNesterov, i) / (seconds(kShm, i) + streams));
  }
  return spread_of(ratios);
}

std::vector<Bar> judge(const Lineup& lineup) {
  const auto over = [&](BarRole a, BarRole b) {
    return ratio(lineup.systems[a]->blocks, lineup.systems[b]->blocks);
  };
  const auto memory = [&](BarRole role) {
    return spread_of({memory_ratio(*lineup.systems[role])});
  };
  return {{"shm sum / roof", 1.6, true, over(kShm, kRoof)},
          {"Open MPI over shared memory / shm sum", 4.0, false, over(kOpenMpiShm, kShm)},
          {"Gloo ring / shm sum", 3.0, false, over(kGloo, kShm)},
          {"shm Nesterov / (shm sum + state streams)", 1.15, true, nesterov_ratio(lineup)},
          {"Gloo ring / tcp sum", 1.0, false, over(kGloo, kTcp)},
          {"Open MPI over TCP / tcp sum", 1.3, false, over(kOpenMpiTcp, kTcp)},
          {"shm, 8 workers / 4", 2.2, true, over(kShmTwice, kShm)},
          {"tcp, 8 workers / 4", 2.3, true, over(kTcpTwice, kTcp)},
          {"server memory / ideal, shm sum", 1.2, true, memory(kShm)},
          {"server memory / ideal, shm Nesterov", 1.2, true, memory(kShmNesterov)},
          {"server memory / ideal, tcp sum", 1.2, true, memory(kTcp)}};
}

void print_bars(const std::vector<Bar>& bars, bool json) {
  if (json) {
    for (const Bar& bar : bars) {
      const nlohmann::ordered_json object = {{"bench", "bars"},           {"measure", bar.measure},
                                             {"limit", bar.limit},        {"at_most", bar.at_most},
                                             {"value", bar.value.median}, {"min", bar.value.min},
                                             {"max", bar.value.max},      {"met", bar.met()}};
      fmt::print("{}\n", object.dump());
    }
    return;
  }
  fmt::print("\n");
  Table table({"measure (block by block)", "bar", "median", "[min .. max]", "met"}, 1);
  for (const Bar& bar : bars) {
    table.add({bar.measure, fmt::format("{} {:.2f}x", bar.at_most ? "<=" : ">=", bar.limit),
               fmt::format("{:.2f}x", bar.value.median), format_range(bar.value),
               bar.met() ? "yes" : "NO"});
  }
  fmt::print(
      "{}ideal server memory: parameters + optimizer state; staging and, over shm, the workers'\n"
      "gradients are left out, the daemon itself is in.\n",
      table.to_string());
}

ExchangeOptions small_options(const BarsOptions& options) {
  ExchangeOptions small;
  small.transports = {"shm", "tcp"};
  small.workers = {kWorkers};
  small.work = options.work;
  small.work.elements = kSmallElements;
  small.work.keys = "one";
  small.systems = {SystemKind::kPhub, SystemKind::kGlooRing, SystemKind::kGlooHalvingDoubling,
                   SystemKind::kOpenMpi};
  small.plan = options.small_plan;
  return small;
}

}  // namespace

Status run_bars(const BarsOptions& options) {
  PHUB_ASSIGN_OR_RETURN(const auto places, Places::create());
  Status right;
  {
    PHUB_ASSIGN_OR_RETURN(Lineup large, start_large(options.work, *places));
    PHUB_RETURN_IF_ERROR(measure(large, options.plan));
    print_lineup(large, options.plan, options.json);
    print_bars(judge(large), options.json);
    right = finish(large);
  }
  PHUB_ASSIGN_OR_RETURN(Lineup small, start_lineup(small_options(options), *places));
  PHUB_RETURN_IF_ERROR(measure(small, options.small_plan));
  print_lineup(small, options.small_plan, options.json);
  const Status small_right = finish(small);
  return right.ok() ? small_right : right;
}

}  // namespace phub::bench
