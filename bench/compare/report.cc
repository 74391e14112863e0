#include "bench/compare/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

#include "bench/base/statistics.h"

namespace phub::bench {
namespace {

constexpr double kMilli = 1e-3;
constexpr double kMicro = 1e-6;

void print_memory(const System& system) {
  const ServerMemory& memory = *system.memory;
  const std::uint64_t ideal = ideal_server_bytes(system.work);
  const std::uint64_t without_staging =
      memory.owned() - std::min(memory.owned(), memory.job_staging);
  fmt::print(
      "server memory: {:.2f}x of parameters + optimizer state ({}), and {} of staging. Resident:\n"
      "  {} ({} before the job) = RssAnon {} + RssShmem {} - {} of the workers' gradients;\n"
      "  the job reports {}.\n",
      static_cast<double>(without_staging) / static_cast<double>(ideal), format_bytes(ideal),
      format_bytes(memory.job_staging), format_bytes(memory.owned()), format_bytes(memory.idle),
      format_bytes(memory.anonymous), format_bytes(memory.shared), format_bytes(memory.gradients),
      format_bytes(memory.job));
}

}  // namespace

void Table::print() const {
  std::vector<std::size_t> widths(rows_.front().size(), 0);
  for (const auto& row : rows_) {
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  for (const auto& row : rows_) {
    std::string line = fmt::format("{:<{}}", row[0], widths[0]);
    for (std::size_t i = 1; i < row.size(); ++i) {
      line += fmt::format("  {:>{}}", row[i], widths[i]);
    }
    fmt::print("{}\n", line);
  }
}

std::string format_seconds(double seconds) {
  if (seconds >= 1.0) return fmt::format("{:.2f} s", seconds);
  if (seconds >= kMilli) return fmt::format("{:.1f} ms", seconds / kMilli);
  return fmt::format("{:.1f} us", seconds / kMicro);
}

std::string format_bytes(std::uint64_t bytes) {
  constexpr double kKib = 1024.0;
  const double kib = static_cast<double>(bytes) / kKib;
  return kib < kKib ? fmt::format("{:.1f} KiB", kib) : fmt::format("{:.1f} MiB", kib / kKib);
}

double exchanged_bytes(const Work& work) {
  return 2.0 * work.workers * static_cast<double>(work.payload_bytes());
}

std::uint64_t ideal_server_bytes(const Work& work) {
  return work.elements * sizeof(float) * (1 + state_arrays(work.rule));
}

void print_comparison(const Comparison& comparison, const BlockPlan& plan) {
  const Work& work = comparison.work;
  fmt::print("\n{}: {} workers, {} {} elements ({} each), rule {}, {} blocks of {} iterations\n",
             work.transport, work.workers, work.elements, name_of(work.dtype),
             format_bytes(work.payload_bytes()), name_of(work.rule), plan.blocks, plan.iterations);
  Table table(
      {"system", "p50", "p99", "GB/s", "time / phub", "[min .. max]", "verified", "checksum"});
  for (const System* system : comparison.rows) {
    const std::vector<double> seconds = all_values(system->blocks);
    const double p50 = median(seconds);
    std::string over = "-";
    std::string range = "-";
    if (comparison.phub != nullptr) {
      const Spread spread = ratio(system->blocks, comparison.phub->blocks);
      over = fmt::format("{:.2f}x", spread.median);
      range = fmt::format("[{:.2f} .. {:.2f}]", spread.min, spread.max);
    }
    table.add({std::string(name_of(system->kind)) + (system->work.encrypt ? ", encrypted" : "") +
                   (system->work.vote ? ", with votes" : ""),
               format_seconds(p50), format_seconds(percentile(seconds, kTail)),
               fmt::format("{:.2f}", exchanged_bytes(work) / p50 / kGiga), over, range,
               system->failure.empty() ? "yes" : "NO", system->checksum});
  }
  table.print();
  if (comparison.phub != nullptr && comparison.phub->memory) print_memory(*comparison.phub);
  for (const System* system : comparison.rows) {
    if (!system->group->note().empty()) {
      fmt::print("{}: {}\n", name_of(system->kind), system->group->note());
    }
  }
}

}  // namespace phub::bench
