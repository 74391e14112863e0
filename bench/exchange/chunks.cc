// "phub-bench chunks": the same exchange with chunks of different sizes.
#include <fmt/format.h>

#include <algorithm>

#include "bench/base/keys.h"
#include "bench/base/statistics.h"
#include "bench/compare/commands.h"
#include "bench/compare/report.h"
#include "bench/exchange/exchange.h"

namespace phub::bench {
namespace {

constexpr std::uint32_t kDefaultKib = 32;
constexpr double kBarWidth = 40.0;

Result<Lineup> start_sizes(const ChunksOptions& options, Places& places) {
  Lineup lineup;
  Comparison comparison{.work = options.work, .phub = nullptr, .rows = {}};
  for (const std::uint32_t kib : options.sizes_kib) {
    Work work = options.work;
    work.chunk_kib = kib;
    PHUB_ASSIGN_OR_RETURN(const System* system, lineup.start(SystemKind::kPhub, work, places));
    comparison.rows.push_back(system);
    // The default size is the base of the ratios; without it the first.
    if (comparison.phub == nullptr || kib == kDefaultKib) comparison.phub = system;
  }
  lineup.comparisons.push_back(std::move(comparison));
  return lineup;
}

void print_table(const ChunksOptions& options, const Comparison& comparison) {
  const Work& work = options.work;
  fmt::print("{}: {} workers, {} {} elements, rule {}, {} blocks of {} iterations\n",
             work.transport, work.workers, work.elements, name_of(work.dtype), name_of(work.rule),
             options.plan.blocks, options.plan.iterations);
  double slowest = 0.0;
  for (const System* system : comparison.rows) {
    slowest = std::max(slowest, median(all_values(system->blocks)));
  }
  const std::string base = fmt::format("time / {} KiB", comparison.phub->work.chunk_kib);
  Table table({"chunk", "p50", "p99", "GB/s", base, "[min .. max]", "verified", "p50 "}, 1);
  for (const System* system : comparison.rows) {
    const double share = median(all_values(system->blocks)) / slowest;
    const auto bar = std::max<std::size_t>(static_cast<std::size_t>(share * kBarWidth), 1);
    table.add(timing_cells(
        fmt::format("{:>4} KiB", system->work.chunk_kib), system->blocks,
        exchanged_bytes(system->work), &comparison.phub->blocks,
        {system->failure.empty() ? "yes" : "NO",
         fmt::format("{:<{}}", std::string(bar, '#'), static_cast<std::size_t>(kBarWidth))}));
  }
  fmt::print("{}", table.to_string());
}

}  // namespace

Status run_chunks(const ChunksOptions& options) {
  PHUB_ASSIGN_OR_RETURN([[maybe_unused]] const auto keys,
                        make_keys(options.work.keys, options.work.elements));
  PHUB_ASSIGN_OR_RETURN(const auto places, Places::create());
  PHUB_ASSIGN_OR_RETURN(Lineup lineup, start_sizes(options, *places));
  PHUB_RETURN_IF_ERROR(measure(lineup, options.plan));
  const Comparison& comparison = lineup.comparisons.front();
  if (options.json) {
    print_json("chunks", comparison, options.plan);
  } else {
    print_table(options, comparison);
  }
  return finish(lineup);
}

}  // namespace phub::bench
