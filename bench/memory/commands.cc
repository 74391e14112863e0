// "phub-bench roof": what memory allows. "phub-bench aggregate": tall against wide, fused against
// unfused. Both time passes over memory in turns, in this process.
#include "bench/compare/commands.h"

#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <functional>
#include <nlohmann/json.hpp>

#include "bench/base/keys.h"
#include "bench/base/statistics.h"
#include "bench/compare/report.h"
#include "bench/memory/aggregation.h"
#include "bench/memory/roof.h"

namespace phub::bench {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kRoof = "roof";

struct TimedPass {
  std::string name;
  unsigned streams = 0;  // arrays of all elements that it moves between memory and the cores
  std::function<void()> run;
  std::function<void()> begin = [] {};  // before each block
  std::string checksum = {};
  Blocks blocks = {};
};

void take_turns(std::vector<TimedPass>& all, const BlockPlan& plan) {
  Progress progress(all.size() * plan.blocks);
  for (unsigned block = 0; block < plan.blocks; ++block) {
    for (TimedPass& one : all) {
      progress.step(fmt::format("block {} of {}: {}", block + 1, plan.blocks, one.name));
      one.begin();
      for (unsigned i = 0; i < plan.warm_up; ++i) one.run();
      std::vector<double>& seconds = one.blocks.emplace_back();
      for (unsigned i = 0; i < plan.iterations; ++i) {
        const auto start = std::chrono::steady_clock::now();
        one.run();
        const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
        seconds.push_back(taken.count());
      }
    }
  }
}

double bytes_of(const TimedPass& one, const MemoryOptions& options) {
  return static_cast<double>(one.streams * options.elements * sizeof(float));
}

// `names` come first, `what` before the times, `more` at the end.
void print_line(Json names, const TimedPass& one, const MemoryOptions& options, const Json& what,
                bool verified, const Json& more = Json::object()) {
  const std::vector<double> seconds = all_values(one.blocks);
  const double p50 = median(seconds);
  const Json where = {{"transport", "memory"},
                      {"workers", options.workers},
                      {"server_cores", options.threads},
                      {"elements", options.elements},
                      {"dtype", "fp32"}};
  const Json times = {{"iterations", seconds.size()},
                      {"seconds_p50", p50},
                      {"seconds_p99", percentile(seconds, kTail)},
                      {"gigabytes_per_second", bytes_of(one, options) / p50 / kGiga},
                      {"verified", verified},
                      {"checksum", one.checksum}};
  for (const Json* part : {&where, &what, &times, &more}) names.update(*part);
  fmt::print("{}\n", names.dump());
}

std::vector<TimedPass> passes_of(Roof& roof, const RoofOptions& options) {
  std::vector<TimedPass> all;
  const auto add = [&](const char* name, RoofPass pass, unsigned streams) {
    all.push_back({name, streams, [&roof, pass] { roof.run(pass); }});
  };
  add("sum", RoofPass::kSum, options.workers + 2);
  if (options.states > 0) add("nesterov", RoofPass::kUpdate, options.workers + 4);
  if (options.states > 1) add("adam", RoofPass::kMoments, options.workers + 6);
  add("copy", RoofPass::kCopy, 3);
  add("triad", RoofPass::kTriad, 4);
  return all;
}

void print_roof(const RoofOptions& options, const std::vector<TimedPass>& all) {
  fmt::print("{} workers, {} fp32 elements, {} pinned threads\n", options.workers, options.elements,
             options.threads);
  Table table({"pass", "streams", "p50", "p99", "GB/s"}, 1);
  for (const TimedPass& one : all) {
    const std::vector<double> seconds = all_values(one.blocks);
    const double p50 = median(seconds);
    table.add({one.name, std::to_string(one.streams), format_seconds(p50),
               format_seconds(percentile(seconds, kTail)),
               fmt::format("{:.1f}", bytes_of(one, options) / p50 / kGiga)});
  }
  fmt::print(
      "{}streams: arrays moved between memory and the cores; a stored array counts twice, because\n"
      "its lines are read before they are written. GB/s: streams x bytes of an array / p50.\n",
      table.to_string());
}

// The last is what memory allows for their streams: it has other bits.
std::vector<TimedPass> ways_of(Aggregation& aggregation, const AggregateOptions& options) {
  std::vector<TimedPass> all;
  for (const bool tall : {true, false}) {
    for (const bool fused : {true, false}) {
      all.push_back({fmt::format("{}-{}", tall ? "tall" : "wide", fused ? "fused" : "unfused"),
                     2 * options.workers, [=, &aggregation] { aggregation.run(tall, fused); },
                     [&aggregation] { aggregation.reset(); }});
    }
  }
  all.push_back({kRoof, 2 * options.workers, [&aggregation] { aggregation.run_roof(); },
                 [&aggregation] { aggregation.reset(); }});
  return all;
}

}  // namespace

Status run_roof(const RoofOptions& options) {
  PHUB_ASSIGN_OR_RETURN(const auto roof, Roof::create(options));
  const Result<std::uint64_t> sum = roof->verify(1);
  std::vector<TimedPass> all = passes_of(*roof, options);
  take_turns(all, options.plan);
  if (options.json) {
    for (TimedPass& one : all) {
      if (sum) one.checksum = fmt::format("{:016x}", *sum);
      print_line({{"bench", "roof"}, {"system", "roof"}}, one, options,
                 {{"rule", one.name}, {"streams", one.streams}}, sum.has_value());
    }
  } else {
    print_roof(options, all);
  }
  return sum ? Status() : sum.error();
}

Status run_aggregate(const AggregateOptions& options) {
  PHUB_ASSIGN_OR_RETURN(auto keys, make_keys(options.keys, options.elements));
  PHUB_ASSIGN_OR_RETURN(const auto aggregation, Aggregation::create(options, std::move(keys)));
  std::vector<TimedPass> all = ways_of(*aggregation, options);
  for (TimedPass& one : all) {
    one.begin();
    one.run();
    one.run();
    one.checksum = fmt::format("{:016x}", checksum(aggregation->parameters(), 0));
  }
  take_turns(all, options.plan);
  Table table({"way", "p50", "p99", "GB/s", "time / tall-fused", "[min .. max]", "same bits"}, 1);
  Status right;
  for (const TimedPass& one : all) {
    const bool same = one.checksum == all.front().checksum || one.name == kRoof;
    if (!same && right.ok()) {
      right = {Code::kDataLoss,
               fmt::format("{} sums otherwise than {}", one.name, all.front().name)};
    }
    table.add(timing_cells(one.name, one.blocks, bytes_of(one, options), &all.front().blocks,
                           {one.name == kRoof ? "-"
                            : same            ? "yes"
                                              : "NO"}));
    if (!options.json) continue;
    const Spread over = ratio(one.blocks, all.front().blocks);
    print_line({{"bench", "aggregate"}, {"system", one.name}}, one, options,
               {{"rule", name_of(options.rule)}, {"chunk_kib", options.chunk_kib}}, same,
               {{"ratio_to_tall_fused_p50", over.median},
                {"ratio_to_tall_fused_min", over.min},
                {"ratio_to_tall_fused_max", over.max}});
  }
  if (!options.json) {
    fmt::print("{} workers, {} fp32 elements, rule {}, {} threads, {} KiB chunks\n{}",
               options.workers, options.elements, name_of(options.rule), options.threads,
               options.chunk_kib, table.to_string());
  }
  return right;
}

}  // namespace phub::bench
