// "phub-bench roof": what memory allows.
#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "bench/base/statistics.h"
#include "bench/compare/commands.h"
#include "bench/compare/report.h"
#include "bench/memory/roof.h"

namespace phub::bench {
namespace {

struct MeasuredPass {
  std::string name;
  RoofPass pass;
  Blocks blocks;
};

std::vector<MeasuredPass> passes(const RoofOptions& options) {
  std::vector<MeasuredPass> all = {{"sum", RoofPass::kSum, {}}};
  if (options.state) all.push_back({"nesterov", RoofPass::kUpdate, {}});
  all.push_back({"copy", RoofPass::kCopy, {}});
  all.push_back({"triad", RoofPass::kTriad, {}});
  return all;
}

void measure_all(Roof& roof, std::vector<MeasuredPass>& all, const BlockPlan& plan) {
  Progress progress(all.size() * plan.blocks);
  for (unsigned block = 0; block < plan.blocks; ++block) {
    for (MeasuredPass& one : all) {
      progress.step(fmt::format("block {} of {}: {}", block + 1, plan.blocks, one.name));
      std::vector<double> seconds;
      for (unsigned i = 0; i < plan.warm_up; ++i) roof.run(one.pass);
      for (unsigned i = 0; i < plan.iterations; ++i) {
        const auto start = std::chrono::steady_clock::now();
        roof.run(one.pass);
        const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
        seconds.push_back(taken.count());
      }
      one.blocks.push_back(std::move(seconds));
    }
  }
}

double gigabytes(const RoofOptions& options, RoofPass pass, double seconds) {
  return static_cast<double>(roof_streams(pass, options.workers) * options.elements *
                             sizeof(float)) /
         seconds / kGiga;
}

void print_lines(const RoofOptions& options, const std::vector<MeasuredPass>& all,
                 const Result<std::uint64_t>& sum) {
  for (const MeasuredPass& one : all) {
    const std::vector<double> seconds = all_values(one.blocks);
    const double p50 = median(seconds);
    const nlohmann::ordered_json object = {
        {"bench", "roof"},
        {"system", "roof"},
        {"transport", "memory"},
        {"workers", options.workers},
        {"server_cores", options.threads},
        {"elements", options.elements},
        {"dtype", "fp32"},
        {"rule", one.name},
        {"streams", roof_streams(one.pass, options.workers)},
        {"iterations", seconds.size()},
        {"seconds_p50", p50},
        {"seconds_p99", percentile(seconds, kTail)},
        {"gigabytes_per_second", gigabytes(options, one.pass, p50)},
        {"verified", sum.has_value()},
        {"checksum", sum ? fmt::format("{:016x}", sum.value()) : ""}};
    fmt::print("{}\n", object.dump());
  }
}

void print_table(const RoofOptions& options, const std::vector<MeasuredPass>& all) {
  fmt::print("{} workers, {} fp32 elements, {} pinned threads\n", options.workers, options.elements,
             options.threads);
  Table table({"pass", "streams", "p50", "p99", "GB/s"});
  for (const MeasuredPass& one : all) {
    const std::vector<double> seconds = all_values(one.blocks);
    const double p50 = median(seconds);
    table.add({one.name, std::to_string(roof_streams(one.pass, options.workers)),
               format_seconds(p50), format_seconds(percentile(seconds, kTail)),
               fmt::format("{:.1f}", gigabytes(options, one.pass, p50))});
  }
  table.print();
  fmt::print(
      "streams: arrays moved between memory and the cores; a stored array counts twice, because\n"
      "its lines are read before they are written. GB/s: streams x bytes of an array / p50.\n");
}

}  // namespace

Status run_roof(const RoofOptions& options) {
  PHUB_ASSIGN_OR_RETURN(const auto roof, Roof::create(options));
  const Result<std::uint64_t> sum = roof->verify(1);
  std::vector<MeasuredPass> all = passes(options);
  measure_all(*roof, all, options.plan);
  if (options.json) {
    print_lines(options, all, sum);
  } else {
    print_table(options, all);
  }
  return sum ? Status() : sum.error();
}

}  // namespace phub::bench
