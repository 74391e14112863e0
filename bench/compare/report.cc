#include "bench/compare/report.h"

#include <fmt/format.h>

#include <cstdio>
#include <nlohmann/json.hpp>

namespace phub::bench {
namespace {

constexpr double kMilli = 1e-3;
constexpr double kMicro = 1e-6;

void print_memory(const System& system) {
  const ServerMemory& memory = *system.memory;
  fmt::print(
      "server memory: {:.2f}x of parameters + optimizer state ({}), and {} of staging. Resident:\n"
      "  {} ({} before the job) = RssAnon {} + RssShmem {} - {} of the workers' gradients;\n"
      "  the job reports {}.\n",
      memory_ratio(system), format_bytes(ideal_server_bytes(system.work)),
      format_bytes(memory.job_staging), format_bytes(memory.owned()), format_bytes(memory.idle),
      format_bytes(memory.anonymous), format_bytes(memory.shared), format_bytes(memory.gradients),
      format_bytes(memory.job));
}

// In words; empty: one.
std::string streams_of(const Work& work) {
  return work.tcp_streams == 1 ? "" : fmt::format(", {} streams", work.tcp_streams);
}

nlohmann::ordered_json describe(const std::string& bench, const System& system) {
  const std::vector<double> seconds = all_values(system.blocks);
  const double p50 = median(seconds);
  std::vector<double> block_medians;
  for (const auto& block : system.blocks) block_medians.push_back(median(block));
  const Work& work = system.work;
  return {{"bench", bench},
          {"system", name_of(system.kind)},
          {"transport", work.encrypt ? work.transport : system.transport()},
          {"encrypted", work.encrypt},
          {"votes", work.vote},
          {"watches_values", work.watch},
          {"checksums", work.checksums},
          {"tcp_streams", work.tcp_streams},
          {"tcp_delay_us", work.tcp_delay_us},
          {"workers", work.workers},
          {"servers", work.servers},
          {"server_cores", work.server_cores},
          {"elements", work.elements},
          {"keys", work.keys},
          {"dtype", name_of(work.dtype)},
          {"rule", name_of(work.rule)},
          {"order", work.deterministic ? "deterministic" : "arrival"},
          {"chunk_kib", work.chunk_kib},
          {"iterations", seconds.size()},
          {"seconds_p50", p50},
          {"seconds_p99", percentile(seconds, kTail)},
          {"seconds_p50_of_blocks", block_medians},
          {"gigabytes_per_second", exchanged_bytes(work) / p50 / kGiga},
          {"verified", system.failure.empty()},
          {"checksum", system.checksum},
          {"note", system.group->note()}};
}

}  // namespace

std::vector<std::string> timing_cells(std::string name, const Blocks& blocks, double bytes,
                                      const Blocks* base, std::initializer_list<std::string> more) {
  const std::vector<double> seconds = all_values(blocks);
  const double p50 = median(seconds);
  std::vector<std::string> cells = {std::move(name),
                                    format_seconds(p50),
                                    format_seconds(percentile(seconds, kTail)),
                                    fmt::format("{:.2f}", bytes / p50 / kGiga),
                                    "-",
                                    "-"};
  if (base != nullptr) {
    const Spread over = ratio(blocks, *base);
    cells[4] = fmt::format("{:.2f}x", over.median);
    cells[5] = format_range(over);
  }
  cells.insert(cells.end(), more);
  return cells;
}

std::string format_range(const Spread& spread) {
  return fmt::format("[{:.2f} .. {:.2f}]", spread.min, spread.max);
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

double memory_ratio(const System& system) {
  const ServerMemory& memory = *system.memory;
  const std::uint64_t owned = memory.owned();  // staging may be reported before it is resident
  return static_cast<double>(owned - std::min(owned, memory.job_staging)) /
         static_cast<double>(ideal_server_bytes(system.work));
}

void print_comparison(const Comparison& comparison, const BlockPlan& plan) {
  const Work& work = comparison.work;
  fmt::print("\n{}: {} workers, {} {} elements ({} each), rule {}, {} blocks of {} iterations\n",
             work.transport, work.workers, work.elements, name_of(work.dtype),
             format_bytes(work.payload_bytes()), name_of(work.rule), plan.blocks, plan.iterations);
  Table table(
      {"system", "p50", "p99", "GB/s", "time / phub", "[min .. max]", "verified", "checksum"}, 1);
  const Blocks* const base = comparison.phub != nullptr ? &comparison.phub->blocks : nullptr;
  for (const System* system : comparison.rows) {
    table.add(timing_cells(
        fmt::format(
            "{}{}{}{}{}{}", name_of(system->kind), system->work.encrypt ? ", encrypted" : "",
            system->work.vote ? ", with votes" : "", system->work.watch ? ", values watched" : "",
            system->work.checksums ? ", with checksums" : "", streams_of(system->work)),
        system->blocks, exchanged_bytes(work), base,
        {system->failure.empty() ? "yes" : "NO", system->checksum}));
  }
  fmt::print("{}", table.to_string());
  if (comparison.phub != nullptr && comparison.phub->memory) print_memory(*comparison.phub);
  for (const System* system : comparison.rows) {
    if (!system->group->note().empty()) {
      fmt::print("{}: {}\n", name_of(system->kind), system->group->note());
    }
  }
}

void print_json(const std::string& bench, const Comparison& comparison, const BlockPlan& plan) {
  for (const System* system : comparison.rows) {
    nlohmann::ordered_json object = describe(bench, *system);
    object["blocks"] = plan.blocks;
    if (comparison.phub != nullptr) {
      const Spread spread = ratio(system->blocks, comparison.phub->blocks);
      object["compared_with_transport"] = comparison.phub->work.transport;
      object["ratio_to_phub_p50"] = spread.median;
      object["ratio_to_phub_min"] = spread.min;
      object["ratio_to_phub_max"] = spread.max;
    }
    if (system->memory) {
      object["server_memory_bytes"] = system->memory->owned();
      object["server_memory_ideal_bytes"] = ideal_server_bytes(system->work);
      object["server_rss_anon_bytes"] = system->memory->anonymous;
      object["server_rss_shmem_bytes"] = system->memory->shared;
      object["server_mapped_gradient_bytes"] = system->memory->gradients;
      object["server_idle_bytes"] = system->memory->idle;
      object["server_job_bytes"] = system->memory->job;
      object["server_job_staging_bytes"] = system->memory->job_staging;
    }
    fmt::print("{}\n", object.dump());
  }
  std::fflush(stdout);
}

}  // namespace phub::bench
