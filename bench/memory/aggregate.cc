// "phub-bench aggregate": tall against wide, fused against unfused.
#include <fmt/format.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "bench/base/keys.h"
#include "bench/base/pattern.h"
#include "bench/base/statistics.h"
#include "bench/compare/commands.h"
#include "bench/compare/report.h"
#include "bench/memory/aggregation.h"

namespace phub::bench {
namespace {

constexpr std::uint64_t kElementsPerKib = 256;

struct MeasuredWay {
  std::string name;
  Way way;
  Blocks blocks;
  std::string checksum;
};

std::array<MeasuredWay, 4> ways() {
  return {MeasuredWay{"tall-fused", {true, true}, {}, {}},
          MeasuredWay{"tall-unfused", {true, false}, {}, {}},
          MeasuredWay{"wide-fused", {false, true}, {}, {}},
          MeasuredWay{"wide-unfused", {false, false}, {}, {}}};
}

double timed(Aggregation& aggregation, Way way) {
  const auto start = std::chrono::steady_clock::now();
  aggregation.run(way);
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

void measure_all(Aggregation& aggregation, std::span<MeasuredWay> all, const BlockPlan& plan) {
  for (MeasuredWay& one : all) {
    aggregation.reset();
    aggregation.run(one.way);
    aggregation.run(one.way);
    one.checksum = fmt::format("{:016x}", checksum(aggregation.parameters(), 0));
  }
  Progress progress(all.size() * plan.blocks);
  for (unsigned block = 0; block < plan.blocks; ++block) {
    for (MeasuredWay& one : all) {
      progress.step(fmt::format("block {} of {}: {}", block + 1, plan.blocks, one.name));
      aggregation.reset();
      for (unsigned i = 0; i < plan.warm_up; ++i) aggregation.run(one.way);
      std::vector<double> seconds;
      for (unsigned i = 0; i < plan.iterations; ++i) seconds.push_back(timed(aggregation, one.way));
      one.blocks.push_back(std::move(seconds));
    }
  }
}

double gigabytes(const AggregateOptions& options, double seconds) {
  return 2.0 * options.workers * static_cast<double>(options.elements * sizeof(float)) / seconds /
         kGiga;
}

void print_lines(const AggregateOptions& options, std::span<const MeasuredWay> all) {
  for (const MeasuredWay& one : all) {
    const std::vector<double> seconds = all_values(one.blocks);
    const Spread over = ratio(one.blocks, all.front().blocks);
    const nlohmann::ordered_json object = {
        {"bench", "aggregate"},
        {"system", one.name},
        {"transport", "memory"},
        {"workers", options.workers},
        {"server_cores", options.threads},
        {"elements", options.elements},
        {"dtype", "fp32"},
        {"rule", name_of(options.rule)},
        {"chunk_kib", options.chunk_kib},
        {"iterations", seconds.size()},
        {"seconds_p50", median(seconds)},
        {"seconds_p99", percentile(seconds, kTail)},
        {"gigabytes_per_second", gigabytes(options, median(seconds))},
        {"verified", one.checksum == all.front().checksum},
        {"checksum", one.checksum},
        {"ratio_to_tall_fused_p50", over.median},
        {"ratio_to_tall_fused_min", over.min},
        {"ratio_to_tall_fused_max", over.max}};
    fmt::print("{}\n", object.dump());
  }
}

void print_table(const AggregateOptions& options, std::span<const MeasuredWay> all) {
  fmt::print("{} workers, {} fp32 elements, rule {}, {} threads, {} KiB chunks\n", options.workers,
             options.elements, name_of(options.rule), options.threads, options.chunk_kib);
  Table table({"way", "p50", "p99", "GB/s", "time / tall-fused", "[min .. max]", "same bits"});
  for (const MeasuredWay& one : all) {
    const std::vector<double> seconds = all_values(one.blocks);
    const Spread over = ratio(one.blocks, all.front().blocks);
    table.add(
        {one.name, format_seconds(median(seconds)), format_seconds(percentile(seconds, kTail)),
         fmt::format("{:.2f}", gigabytes(options, median(seconds))),
         fmt::format("{:.2f}x", over.median), fmt::format("[{:.2f} .. {:.2f}]", over.min, over.max),
         one.checksum == all.front().checksum ? "yes" : "NO"});
  }
  table.print();
}

}  // namespace

Status run_aggregate(const AggregateOptions& options) {
  PHUB_ASSIGN_OR_RETURN(auto keys, make_keys(options.keys, options.elements));
  PHUB_ASSIGN_OR_RETURN(
      const auto aggregation,
      Aggregation::create({.workers = options.workers,
                           .keys = std::move(keys),
                           .rule = options.rule,
                           .threads = options.threads,
                           .chunk_elements = options.chunk_kib * kElementsPerKib}));
  std::array<MeasuredWay, 4> all = ways();
  measure_all(*aggregation, all, options.plan);
  if (options.json) {
    print_lines(options, all);
  } else {
    print_table(options, all);
  }
  for (const MeasuredWay& one : all) {
    if (one.checksum != all.front().checksum) {
      return {Code::kDataLoss,
              fmt::format("{} sums otherwise than {}", one.name, all.front().name)};
    }
  }
  return {};
}

}  // namespace phub::bench
