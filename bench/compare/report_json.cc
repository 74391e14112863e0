#include <fmt/format.h>

#include <cstdio>
#include <nlohmann/json.hpp>

#include "bench/base/statistics.h"
#include "bench/compare/report.h"

namespace phub::bench {
namespace {

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
