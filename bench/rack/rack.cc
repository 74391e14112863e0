#include "bench/rack/rack.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdio>
#include <nlohmann/json.hpp>

#include "bench/compare/interleave.h"
#include "bench/rack/cluster.h"
#include "bench/rack/replay.h"
#include "bench/rack/scenario.h"

namespace phub::bench {
namespace {

BlockPlan plan_of(const RackExchange& exchange) {
  return {
      .blocks = exchange.blocks(), .iterations = exchange.rounds(), .warm_up = exchange.warm_up()};
}

Status measure(System& system, const Testbed& testbed, const RackTools& tools, RackResult& result) {
  const BlockPlan plan = plan_of(result.scenario.exchange());
  const std::chrono::seconds timeout(result.scenario.exchange().timeout_s());
  Progress progress(plan.blocks + 2);
  progress.step("verifying");
  PHUB_RETURN_IF_ERROR(verify(system, 1, timeout));
  PHUB_ASSIGN_OR_RETURN(const auto lost_before, take_losses(result.fabric, testbed, tools));
  for (unsigned block = 0; block < plan.blocks; ++block) {
    progress.step(fmt::format("block {} of {}", block + 1, plan.blocks));
    PHUB_ASSIGN_OR_RETURN(const RackSample before, take_sample(result.fabric, testbed, tools));
    PHUB_RETURN_IF_ERROR(run_block(system, plan, timeout));
    PHUB_ASSIGN_OR_RETURN(const RackSample after, take_sample(result.fabric, testbed, tools));
    result.load.add(before, after);
  }
  PHUB_ASSIGN_OR_RETURN(auto lost, take_losses(result.fabric, testbed, tools));
  result.losses = losses_between(lost_before, std::move(lost));
  progress.step("verifying");
  return verify(system, 2, timeout);
}

// What the workers have in common: hosts, links and servers.
struct Standing {
  const RackTools& tools;
  Places& places;
  const Testbed& testbed;
  RackCluster& cluster;
};

Status run_exchange(RackResult& result, const Standing& standing) {
  PHUB_ASSIGN_OR_RETURN(const auto system,
                        start_exchange(result.fabric, result.scenario, standing.cluster,
                                       standing.testbed, standing.places));
  PHUB_RETURN_IF_ERROR(measure(*system, standing.testbed, standing.tools, result));
  result.blocks = system->blocks;
  result.checksum = system->checksum;
  result.failure = system->failure;
  system->group->stop();
  return {};
}

Status run_training(RackResult& result, const Standing& standing) {
  Progress progress(2);
  progress.step("the workers begin");
  PHUB_ASSIGN_OR_RETURN(const auto lost_before,
                        take_losses(result.fabric, standing.testbed, standing.tools));
  PHUB_ASSIGN_OR_RETURN(const auto training,
                        TrainingRun::start(result.fabric, result.scenario, standing.cluster,
                                           standing.testbed, standing.places));
  PHUB_RETURN_IF_ERROR(training->begin());
  const auto timeout = std::chrono::seconds(result.scenario.training().timeout_s());
  progress.step("training");
  PHUB_ASSIGN_OR_RETURN(const RackSample before,
                        take_sample(result.fabric, standing.testbed, standing.tools));
  PHUB_RETURN_IF_ERROR(training->finish(std::chrono::steady_clock::now() + timeout));
  PHUB_ASSIGN_OR_RETURN(const RackSample after,
                        take_sample(result.fabric, standing.testbed, standing.tools));
  PHUB_ASSIGN_OR_RETURN(auto lost, take_losses(result.fabric, standing.testbed, standing.tools));
  result.losses = losses_between(lost_before, std::move(lost));
  result.load.add(before, after);
  result.epochs = training->epochs();
  return {};
}

Status measure_scenario(RackResult& result, const RackTools& tools, Places& places) {
  PHUB_ASSIGN_OR_RETURN(const auto testbed,
                        Testbed::build(result.fabric, result.scenario.links(), tools, places));
  PHUB_ASSIGN_OR_RETURN(const auto cluster,
                        RackCluster::start(result.fabric, result.scenario, *testbed, places));
  const Standing standing{
      .tools = tools, .places = places, .testbed = *testbed, .cluster = *cluster};
  if (result.scenario.faults_size() > 0) {
    PHUB_ASSIGN_OR_RETURN(result.faulted,
                          run_faults(result.scenario, result.fabric,
                                     {.testbed = *testbed, .cluster = *cluster, .places = places}));
    return {};
  }
  return result.scenario.has_training() ? run_training(result, standing)
                                        : run_exchange(result, standing);
}

// Which link a training's bytes bind is not known before it has run.
double payload_of(const RackScenario& scenario) {
  return scenario.has_training() ? 0 : static_cast<double>(work_of(scenario).payload_bytes());
}

Status print_replay(const RackResult& result, bool json) {
  PHUB_ASSIGN_OR_RETURN(replay::ReplayPlan plan, replay_plan_of(result.scenario));
  const replay::Outcome outcome{.plan = std::move(plan),
                                .work = work_of(result.scenario),
                                .rates = rates_of(result.scenario),
                                .blocks = result.blocks,
                                .checksum = result.checksum,
                                .failure = result.failure};
  fmt::print("{}", json ? json_of(outcome) + "\n" : "\n" + text_of(outcome));
  return {};
}

}  // namespace

std::uint64_t RackResult::rounds() const {
  if (scenario.has_training()) return steps_of(epochs);
  const RackExchange& exchange = scenario.exchange();
  return blocks.size() * (std::uint64_t{exchange.rounds()} + exchange.warm_up());
}

Status run_rack(const RackOptions& options) {
  PHUB_ASSIGN_OR_RETURN(RackScenario scenario, load_scenario(options.scenario));
  if (scenario.has_training()) {
    if (const auto config = trained_config(scenario); !config) return config.error();
  }
  PHUB_ASSIGN_OR_RETURN(const auto places, Places::create());
  PHUB_ASSIGN_OR_RETURN(const RackTools tools, RackTools::find(*places));
  if (const auto removed = remove_leftovers(tools); !removed) return removed.error();
  const Fabric fabric = plan_fabric(scenario, payload_of(scenario));
  RackResult result{.scenario = std::move(scenario),
                    .fabric = fabric,
                    .blocks = {},
                    .epochs = {},
                    .faulted = {},
                    .load = RackLoad(fabric),
                    .losses = {},
                    .checksum = {},
                    .failure = {}};
  PHUB_RETURN_IF_ERROR(measure_scenario(result, tools, *places));
  fmt::print("{}", options.json ? report_json(result) + "\n" : report_text(result));
  if (result.scenario.has_replay() && !result.blocks.empty()) {
    PHUB_RETURN_IF_ERROR(print_replay(result, options.json));
  }
  if (!result.failure.empty()) return {Code::kDataLoss, result.failure};
  return verdict(result.faulted);
}

Status clean_racks(bool json) {
  PHUB_ASSIGN_OR_RETURN(const auto places, Places::create());
  PHUB_ASSIGN_OR_RETURN(const RackTools tools, RackTools::find(*places));
  PHUB_ASSIGN_OR_RETURN(const std::vector<std::string> removed, remove_leftovers(tools));
  if (json) {
    fmt::print("{}\n", nlohmann::json{{"removed", removed}}.dump());
  } else if (removed.empty()) {
    fmt::print("nothing was left\n");
  } else {
    fmt::print("removed\n  {}\n", fmt::join(removed, "\n  "));
  }
  return {};
}

Status check_rack(bool json) {
  PHUB_ASSIGN_OR_RETURN(const auto places, Places::create());
  PHUB_ASSIGN_OR_RETURN(const RackTools tools, RackTools::find(*places));
  PHUB_ASSIGN_OR_RETURN(
      const RackScenario scenario,
      parse_scenario("racks { workers: 1 servers: 1 } racks { workers: 1 }", "check"));
  PHUB_ASSIGN_OR_RETURN(const auto testbed,
                        Testbed::build(plan_fabric(scenario, 1), scenario.links(), tools, *places));
  fmt::print("{}\n", json ? R"({"racks":true})" : "racks can be built here");
  return {};
}

}  // namespace phub::bench
