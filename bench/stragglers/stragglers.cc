#include "bench/stragglers/stragglers.h"

#include <fmt/format.h>

#include <cstdio>
#include <memory>

#include "bench/base/statistics.h"
#include "bench/compare/interleave.h"
#include "bench/compare/report.h"
#include "bench/compare/systems.h"
#include "bench/stragglers/worker.h"
#include "common/text/table.h"

namespace phub::bench::stragglers {
namespace {

constexpr char kNobodySlow[] = "all, nobody slow";

// One line of the report; a value for each block.
struct Row {
  std::string name;
  RoundPolicy rounds;
  Slowness slowness;
  std::vector<double> round_seconds = {};  // of the median worker
  std::vector<double> updates = {};        // pushes of all workers a second
  std::vector<double> slowest = {};        // of the slowest worker, rounds a second
};

std::vector<Row> rows_of(const StragglersOptions& options) {
  std::vector<Row> rows = {{.name = kNobodySlow, .rounds = {}, .slowness = {.kind = "none"}}};
  rows.push_back({.name = "all", .rounds = {}, .slowness = options.slowness});
  for (const std::string& policy : options.policies) {
    if (policy == "all") continue;
    rows.push_back(
        {.name = policy, .rounds = rounds_of(options, policy), .slowness = options.slowness});
  }
  return rows;
}

Result<std::unique_ptr<System>> start(const Work& work, Places& places) {
  auto system = std::make_unique<System>();
  system->work = work;
  PHUB_ASSIGN_OR_RETURN(system->servers, PhubServers::start(work, places));
  PHUB_ASSIGN_OR_RETURN(const std::string self, places.program("phub-bench"));
  const ServedWork served{work, system->servers->addresses()};
  const std::vector<std::string> command = {self, "straggler-worker",
                                            nlohmann::json(served).dump()};
  PHUB_ASSIGN_OR_RETURN(system->group,
                        ProcessGroup::start({.name = system->label(),
                                             .workers = work.workers,
                                             .commands = {work.workers, command},
                                             .log_path = places.fresh_path("stragglers.log"),
                                             .interrupt_fd = places.interrupt_fd()}));
  return system;
}

Status measure(System& system, const Stretch& stretch, Row& row) {
  const auto timeout = std::chrono::seconds(system.work.wait_s) +
                       std::chrono::milliseconds(static_cast<std::int64_t>(1e3 * stretch.seconds));
  PHUB_ASSIGN_OR_RETURN(const auto replies, system.group->ask(text_of(stretch), timeout));
  std::vector<double> seconds;
  double updates = 0.0;
  for (const std::string& reply : replies) {
    const Done done = nlohmann::json::parse(reply).get<Done>();
    seconds.push_back(done.seconds / static_cast<double>(done.rounds));
    updates += 1.0 / seconds.back();
  }
  row.round_seconds.push_back(median(seconds));
  row.updates.push_back(updates);
  row.slowest.push_back(1.0 / percentile(seconds, 1.0));
  return {};
}

Spread over(const std::vector<double>& values, const std::vector<double>& base) {
  std::vector<double> ratios;
  for (std::size_t i = 0; i < values.size(); ++i) ratios.push_back(values[i] / base[i]);
  return spread_of(ratios);
}

std::string text_of(const Spread& spread) {
  return fmt::format("{:.2f}x {}", spread.median, format_range(spread));
}

void print_table(const StragglersOptions& options, const std::vector<Row>& rows) {
  const Slowness& slowness = options.slowness;
  fmt::print("{} workers over {}, {} elements, {} of compute; slow: {}\n", options.work.workers,
             options.work.transport, options.work.elements, human_time(options.compute),
             slowness.kind == "sleep"
                 ? fmt::format("the last sleeps for {} in {} of its rounds",
                               human_time(slowness.sleep), human_share(slowness.chance))
             : slowness.kind == "slow"
                 ? fmt::format("the last takes {:g} times as long", slowness.factor)
                 : fmt::format("one of all by turns takes {:g} times as long", slowness.factor));
  Table table("POLICY|>ROUND|>OF NOBODY SLOW|>UPDATES/S|>OF ALL'S|>SLOWEST WORKER'S");
  for (const Row& row : rows) {
    table.add({row.name, human_time(median(row.round_seconds)),
               text_of(over(row.round_seconds, rows[0].round_seconds)),
               fmt::format("{:.1f}", median(row.updates)),
               text_of(over(row.updates, rows[1].updates)),
               fmt::format("{:.1f}", median(row.slowest))});
  }
  fmt::print("{}ROUND: of the median worker. All: every worker's push completes a round.\n",
             table.to_string());
}

void print_json(const StragglersOptions& options, const std::vector<Row>& rows) {
  for (const Row& row : rows) {
    const Spread round = over(row.round_seconds, rows[0].round_seconds);
    const Spread updates = over(row.updates, rows[1].updates);
    const nlohmann::json line = {
        {"bench", "stragglers"},
        {"policy", row.name},
        {"transport", options.work.transport},
        {"workers", options.work.workers},
        {"elements", options.work.elements},
        {"compute_seconds", options.compute},
        {"slowness", row.slowness},
        {"quorum", row.rounds.waits_for_all() ? options.work.workers : row.rounds.quorum},
        {"grace_ms", row.rounds.grace_ms},
        {"round_seconds", median(row.round_seconds)},
        {"of_nobody_slow", {round.median, round.min, round.max}},
        {"updates_per_second", median(row.updates)},
        {"updates_of_all", {updates.median, updates.min, updates.max}},
        {"slowest_rounds_per_second", median(row.slowest)}};
    fmt::print("{}\n", line.dump());
  }
}

}  // namespace

RoundPolicy rounds_of(const StragglersOptions& options, std::string_view policy) {
  if (policy == "backup") {
    return {.quorum = options.work.workers - options.backups, .grace_ms = options.grace_ms};
  }
  if (policy == "ssp") {
    return {.quorum = 1, .staleness = options.staleness, .late = LatePushes::kAdd};
  }
  if (policy == "async") return {.quorum = 1, .late = LatePushes::kAdd};
  return {};
}

Status run_stragglers(const StragglersOptions& options) {
  PHUB_ASSIGN_OR_RETURN(const auto places, Places::create());
  std::vector<Row> rows = rows_of(options);
  PHUB_ASSIGN_OR_RETURN(const auto system, start(options.work, *places));
  Progress progress(rows.size() * options.blocks);
  for (unsigned block = 0; block < options.blocks; ++block) {
    for (Row& row : rows) {
      progress.step(fmt::format("block {} of {}: {}", block + 1, options.blocks, row.name));
      PHUB_RETURN_IF_ERROR(measure(*system,
                                   {.job = fmt::format("{}-{}", row.name, block),
                                    .rounds = row.rounds,
                                    .slowness = row.slowness,
                                    .compute = options.compute,
                                    .seconds = options.seconds},
                                   row));
    }
  }
  system->group->stop();
  options.json ? print_json(options, rows) : print_table(options, rows);
  return {};
}

}  // namespace phub::bench::stragglers
