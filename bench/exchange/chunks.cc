// "phub-bench chunks": the same exchange with chunks of different sizes.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

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
    PHUB_ASSIGN_OR_RETURN(auto system, start_system(SystemKind::kPhub, work, places));
    comparison.rows.push_back(system.get());
    // The default size is the base of the ratios; without it the first.
    if (comparison.phub == nullptr || kib == kDefaultKib) comparison.phub = system.get();
    lineup.systems.push_back(std::move(system));
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
  Table table({"chunk", "p50", "p99", "GB/s", base, "[min .. max]", "verified", "p50 "});
  for (const System* system : comparison.rows) {
    const std::vector<double> seconds = all_values(system->blocks);
    const double p50 = median(seconds);
    const Spread over = ratio(system->blocks, comparison.phub->blocks);
    const auto bar = static_cast<std::size_t>(p50 / slowest * kBarWidth);
    table.add({fmt::format("{:>4} KiB", system->work.chunk_kib), format_seconds(p50),
               format_seconds(percentile(seconds, kTail)),
               fmt::format("{:.2f}", exchanged_bytes(system->work) / p50 / kGiga),
               fmt::format("{:.2f}x", over.median),
               fmt::format("[{:.2f} .. {:.2f}]", over.min, over.max),
               system->failure.empty() ? "yes" : "NO",
               fmt::format("{:<{}}", std::string(std::max<std::size_t>(bar, 1), '#'),
                           static_cast<std::size_t>(kBarWidth))});
  }
  table.print();
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
  const Status right = failures_of(lineup);
  for (const auto& system : lineup.systems) system->group->stop();
  return right;
}

}  // namespace phub::bench
