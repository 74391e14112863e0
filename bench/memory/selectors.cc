// "phub-bench select": the selectors of kernels/sparse.h on one core, in turns over one gradient.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <random>

#include "bench/base/pattern.h"
#include "bench/base/statistics.h"
#include "bench/compare/commands.h"
#include "bench/compare/report.h"
#include "kernels/sparse.h"

namespace phub::bench {
namespace {

using Json = nlohmann::ordered_json;

struct TimedSelector {
  Selector selector;
  std::vector<std::uint32_t> indices;
  std::vector<float> values;
  double energy = 0.0;        // of what is selected
  bool is_selection = false;  // exactly k, ascending, as the gradient has them
  Blocks blocks;
};

// Layers of a network, whose gradients have scales of their own: normal within a layer.
std::vector<float> make_gradient(std::uint64_t elements) {
  constexpr std::uint64_t kLayers = 160;
  std::mt19937 random(1);
  std::uniform_real_distribution<float> exponent(-3.0F, 0.0F);
  std::vector<float> gradient(elements);
  for (std::uint64_t layer = 0; layer < kLayers; ++layer) {
    std::normal_distribution<float> normal(0.0F, std::pow(10.0F, exponent(random)));
    const std::uint64_t end = elements * (layer + 1) / kLayers;
    for (std::uint64_t i = elements * layer / kLayers; i < end; ++i) gradient[i] = normal(random);
  }
  return gradient;
}

double energy_of(const std::vector<float>& values) {
  double sum = 0.0;
  for (const float value : values) sum += static_cast<double>(value) * static_cast<double>(value);
  return sum;
}

bool is_selection(const TimedSelector& one, const std::vector<float>& gradient) {
  for (std::size_t i = 0; i < one.indices.size(); ++i) {
    if (one.indices[i] >= gradient.size() || one.values[i] != gradient[one.indices[i]])
      return false;
    if (i > 0 && one.indices[i] <= one.indices[i - 1]) return false;
  }
  return true;
}

std::string checksum_of(const TimedSelector& one) {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < one.indices.size(); ++i) {
    sum += checksum({&one.values[i], 1}, one.indices[i]);
  }
  return fmt::format("{:016x}", sum);
}

void print_line(const TimedSelector& one, const SelectOptions& options, std::size_t k,
                const TimedSelector& exact) {
  const std::vector<double> seconds = all_values(one.blocks);
  const Spread over = ratio(exact.blocks, one.blocks);
  // Of the gradient, once, whatever a selector reads of it.
  const double gigabytes = static_cast<double>(options.elements * sizeof(float)) * 1e-9;
  const Json line = {{"bench", "select"},
                     {"system", name_of(one.selector)},
                     {"transport", "memory"},
                     {"workers", 1},
                     {"server_cores", 1},
                     {"elements", options.elements},
                     {"dtype", "fp32"},
                     {"rule", "none"},
                     {"selected", k},
                     {"iterations", seconds.size()},
                     {"seconds_p50", median(seconds)},
                     {"seconds_p99", percentile(seconds, kTail)},
                     {"gigabytes_per_second", gigabytes / median(seconds)},
                     {"speedup_over_exact_p50", over.median},
                     {"speedup_over_exact_min", over.min},
                     {"speedup_over_exact_max", over.max},
                     {"energy_of_exact", one.energy / exact.energy},
                     {"verified", one.is_selection},
                     {"checksum", checksum_of(one)}};
  fmt::print("{}\n", line.dump());
}

void print_table(const std::vector<TimedSelector>& all, const SelectOptions& options,
                 std::size_t k) {
  fmt::print("{} of {} fp32 elements by magnitude, one core\n", k, options.elements);
  Table table(
      {"selector", "p50", "p99", "exact / time", "[min .. max]", "energy of exact's", "checksum"},
      1);
  for (const TimedSelector& one : all) {
    const std::vector<double> seconds = all_values(one.blocks);
    const Spread over = ratio(all.front().blocks, one.blocks);
    table.add({std::string(name_of(one.selector)), format_seconds(median(seconds)),
               format_seconds(percentile(seconds, kTail)), fmt::format("{:.2f}", over.median),
               format_range(over), fmt::format("{:.6f}", one.energy / all.front().energy),
               checksum_of(one)});
  }
  fmt::print("{}", table.to_string());
}

}  // namespace

Status run_select(const SelectOptions& options) {
  const std::vector<float> gradient = make_gradient(options.elements);
  const auto k = static_cast<std::size_t>(
      std::max(1.0, std::round(options.density * static_cast<double>(options.elements))));
  std::vector<TimedSelector> all;
  for (const auto selector : {Selector::kExact, Selector::kHistogram, Selector::kThresholds}) {
    all.push_back({.selector = selector,
                   .indices = std::vector<std::uint32_t>(k),
                   .values = std::vector<float>(k),
                   .blocks = {}});
  }
  std::vector<std::uint32_t> scratch(kernels::scratch_of(Selector::kExact, gradient.size()));
  Progress progress(all.size() * options.plan.blocks);
  for (unsigned block = 0; block < options.plan.blocks; ++block) {
    for (TimedSelector& one : all) {
      progress.step(
          fmt::format("block {} of {}: {}", block + 1, options.plan.blocks, name_of(one.selector)));
      std::vector<double>& seconds = one.blocks.emplace_back();
      for (unsigned i = 0; i < options.plan.warm_up + options.plan.iterations; ++i) {
        const auto start = std::chrono::steady_clock::now();
        kernels::select(one.selector, gradient, k, {one.indices.data(), one.values.data()}, scratch,
                        {.rounds = options.rounds});
        const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
        if (i >= options.plan.warm_up) seconds.push_back(taken.count());
      }
    }
  }
  Status right;
  for (TimedSelector& one : all) {
    one.energy = energy_of(one.values);
    one.is_selection = is_selection(one, gradient);
    if (!one.is_selection) {
      right = {Code::kDataLoss, fmt::format("{} selected wrongly", name_of(one.selector))};
    }
  }
  if (!options.json) print_table(all, options, k);
  for (const TimedSelector& one : all) {
    if (options.json) print_line(one, options, k, all.front());
  }
  return right;
}

}  // namespace phub::bench
