#include "bench/rack/rack.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdio>
#include <nlohmann/json.hpp>

#include "bench/compare/interleave.h"
#include "bench/rack/cluster.h"
#include "bench/rack/peers.h"
#include "bench/rack/replay.h"
#include "bench/rack/scenario.h"
#include "bench/rack/testbed/counters.h"
#include "bench/rack/testbed/ssh_site.h"

namespace phub::bench {
namespace {

BlockPlan plan_of(const RackExchange& exchange) {
  return {
      .blocks = exchange.blocks(), .iterations = exchange.rounds(), .warm_up = exchange.warm_up()};
}

// What the workers have in common: hosts, servers, and what is counted.
struct Standing {
  const RackSite& site;
  const Testbed* testbed;  // the same, if it is one
  const RackTools* tools;
  RackCluster& cluster;
  RackCounters& counters;
  Places& places;
};

struct Measured {
  std::string name;
  std::unique_ptr<System> system;
  RackCounters counters;
};

Status measure(std::vector<Measured>& all, RackCounters& losses, const RackExchange& exchange) {
  const BlockPlan plan = plan_of(exchange);
  const std::chrono::seconds timeout(exchange.timeout_s());
  Progress progress(all.size() * (plan.blocks + 2), Progress::Elsewhere::kLines);
  const auto verify_all = [&](std::uint32_t round) -> Status {
    for (const Measured& one : all) {
      progress.step("verifying " + one.name);
      PHUB_RETURN_IF_ERROR(verify(*one.system, round, timeout));
    }
    return {};
  };
  PHUB_RETURN_IF_ERROR(verify_all(1));
  PHUB_RETURN_IF_ERROR(losses.open());
  for (unsigned block = 0; block < plan.blocks; ++block) {
    for (Measured& one : all) {
      progress.step(fmt::format("block {} of {}: {}", block + 1, plan.blocks, one.name));
      PHUB_RETURN_IF_ERROR(one.counters.start());
      PHUB_RETURN_IF_ERROR(run_block(*one.system, plan, timeout));
      PHUB_RETURN_IF_ERROR(one.counters.stop());
    }
  }
  PHUB_RETURN_IF_ERROR(losses.close());
  return verify_all(2);
}

// Of the scenario's peers one.
Result<std::unique_ptr<System>> start_other(const std::string& name, const RackResult& result,
                                            const Standing& standing) {
  if (const std::optional<std::string> shape = shape_of_peer(name)) {
    RackScenario scenario = result.scenario;
    scenario.set_shape(*shape);
    return start_exchange(result.fabric, scenario, standing.cluster, standing.site,
                          standing.places);
  }
  return start_peer(name, result.fabric, result.scenario, *standing.testbed, standing.places);
}

Status run_exchange(RackResult& result, const Standing& standing) {
  std::vector<Measured> all;
  const auto add = [&](std::string name, std::unique_ptr<System> system) {
    all.push_back({std::move(name), std::move(system),
                   RackCounters(result.fabric, standing.testbed, standing.tools)});
  };
  PHUB_ASSIGN_OR_RETURN(auto own, start_exchange(result.fabric, result.scenario, standing.cluster,
                                                 standing.site, standing.places));
  add("phub", std::move(own));
  for (const std::string& name : result.scenario.peers()) {
    PHUB_ASSIGN_OR_RETURN(auto peer, start_other(name, result, standing));
    add(name, std::move(peer));
  }
  PHUB_RETURN_IF_ERROR(measure(all, standing.counters, result.scenario.exchange()));
  result.blocks = all.front().system->blocks;
  result.checksum = all.front().system->checksum;
  result.load = all.front().counters.load();
  result.losses = standing.counters.losses();
  for (const Measured& one : all) {
    if (result.failure.empty()) result.failure = one.system->failure;
    if (&one != &all.front()) {
      result.peers.push_back(
          {.name = one.name, .blocks = one.system->blocks, .load = one.counters.load()});
    }
    one.system->group->stop();
  }
  return {};
}

Status run_training(RackResult& result, const Standing& standing) {
  PHUB_ASSIGN_OR_RETURN(const WorkerConfig config, trained_config(result.scenario));
  Progress progress(1, Progress::Elsewhere::kLines);
  progress.show(-1.0, "the workers begin");
  PHUB_RETURN_IF_ERROR(standing.counters.open());
  PHUB_ASSIGN_OR_RETURN(const auto training,
                        TrainingRun::start(result.fabric, result.scenario, standing.cluster,
                                           standing.site, standing.places));
  PHUB_RETURN_IF_ERROR(training->begin());
  const auto timeout = std::chrono::seconds(result.scenario.training().timeout_s());
  training->watch([&](std::uint64_t steps) {
    const auto& epochs = training->epochs();
    progress.show(
        share_done(config.train(), steps, epochs.empty() ? 0 : epochs.front().steps),
        fmt::format("training, epoch {} of {}", epochs.size() + 1, config.train().epochs()));
  });
  PHUB_RETURN_IF_ERROR(standing.counters.start());
  PHUB_RETURN_IF_ERROR(training->finish(std::chrono::steady_clock::now() + timeout));
  PHUB_RETURN_IF_ERROR(standing.counters.stop());
  PHUB_RETURN_IF_ERROR(standing.counters.close());
  result.epochs = training->epochs();
  result.load = standing.counters.load();
  result.losses = standing.counters.losses();
  return {};
}

// `testbed` is the site, if it is one; nothing is counted elsewhere.
Status work_on(const RackSite& site, const Testbed* testbed, const RackTools* tools,
               RackResult& result, Places& places) {
  PHUB_ASSIGN_OR_RETURN(const auto cluster,
                        RackCluster::start(result.fabric, result.scenario, site, places));
  RackCounters counters(result.fabric, testbed, tools);
  const Standing standing{.site = site,
                          .testbed = testbed,
                          .tools = tools,
                          .cluster = *cluster,
                          .counters = counters,
                          .places = places};
  return result.scenario.has_training() ? run_training(result, standing)
                                        : run_exchange(result, standing);
}

Status run_in_namespaces(RackResult& result, Places& places) {
  PHUB_ASSIGN_OR_RETURN(const RackTools tools, RackTools::find(places));
  if (const auto removed = remove_leftovers(tools); !removed) return removed.error();
  PHUB_ASSIGN_OR_RETURN(const auto testbed,
                        Testbed::build(result.fabric, result.scenario.links(), tools, places));
  if (result.scenario.faults_size() == 0) {
    return work_on(*testbed, testbed.get(), &tools, result, places);
  }
  PHUB_ASSIGN_OR_RETURN(const auto cluster,
                        RackCluster::start(result.fabric, result.scenario, *testbed, places));
  PHUB_ASSIGN_OR_RETURN(result.faulted,
                        run_faults(result.scenario, result.fabric,
                                   {.testbed = *testbed, .cluster = *cluster, .places = places}));
  return {};
}

Status run_on_machines(RackResult& result, Places& places) {
  PHUB_ASSIGN_OR_RETURN(const auto site, SshSite::create(result.scenario.ssh(), places));
  return work_on(*site, nullptr, nullptr, result, places);
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
  const Fabric fabric = plan_fabric(scenario, payload_of(scenario), small_share_of(scenario));
  RackResult result{.scenario = std::move(scenario),
                    .fabric = fabric,
                    .blocks = {},
                    .epochs = {},
                    .faulted = {},
                    .load = RackLoad(fabric),
                    .losses = {},
                    .peers = {},
                    .checksum = {},
                    .failure = {}};
  PHUB_RETURN_IF_ERROR(has_machines(result.scenario) ? run_on_machines(result, *places)
                                                     : run_in_namespaces(result, *places));
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
