#include "bench/rack/replay.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <utility>

#include "bench/rack/scenario.h"
#include "bench/replay/replay.h"
#include "bench/replay/worker.h"
#include "common/config/model_names.h"

namespace phub::bench {
namespace {

constexpr double kMostMs = 1e9;
constexpr double kMostShrink = 1e6;
constexpr double kMostAlphaUs = 1e9;
constexpr std::uint32_t kMostIterations = 1'000'000;

double rate_of_uplink(const RackLinks& links, const Rack& rack) {
  if (rack.has_uplink_mbit()) return rack.uplink_mbit();
  return rack.workers() * links.worker_mbit() / links.oversubscription();
}

}  // namespace

void check_replay(ConfigCheck& check, const RackReplay& replay) {
  check.require(replay.has_trace() != replay.has_model(), replay.has_model() ? "model" : "trace",
                "write either trace: a file of layer times, or model: a built-in network");
  const bool has_model = replay.has_model();
  if (has_model) {
    check.one_of("model", replay.model(), kModelNames);
    check.require(replay.forward_ms() + replay.backward_ms() > 0, "model",
                  "a list of sizes has no times; set forward_ms and backward_ms");
  }
  for (const char* field : {"forward_ms", "backward_ms", "spread"}) {
    check.unused_unless(has_model, field, "with a trace, which has times of its own");
  }
  check.unused_unless(!has_model, "forward_ratio", "with a model, which has forward_ms");
  check.in_range("forward_ms", replay.forward_ms(), 0.0, kMostMs);
  check.in_range("backward_ms", replay.backward_ms(), 0.0, kMostMs);
  check.in_range("forward_ratio", replay.forward_ratio(), 0.0, kMostMs);
  check.one_of("spread", replay.spread(), replay::kSpreads);
  check.in_range("shrink", replay.shrink(), 1.0, kMostShrink);
  check.one_of("policy", replay.policy(), replay::kPolicies);
  check.one_of("dtype", replay.dtype(), {"fp32", "fp16", "bf16"});
  check.in_range("chunk_kib", replay.chunk_kib(), 1U, 16U * 1024);
  check.in_range("iterations", replay.iterations(), 1U, kMostIterations);
  check.in_range("warm_up", replay.warm_up(), 0U, kMostIterations);
  check.in_range("blocks", replay.blocks(), 1U, kMostIterations);
  check.in_range("timeout_s", replay.timeout_s(), 1U, 86'400U);
  check.in_range("alpha_us", replay.alpha_us(), 0.0, kMostAlphaUs);
}

Result<replay::ReplayPlan> replay_plan_of(const RackScenario& scenario) {
  constexpr double kMilliseconds = 1e3;
  const RackReplay& wanted = scenario.replay();
  return replay::plan_of({.trace = wanted.trace(),
                          .forward_ratio = wanted.forward_ratio(),
                          .model = wanted.model(),
                          .forward = wanted.forward_ms() / kMilliseconds,
                          .backward = wanted.backward_ms() / kMilliseconds,
                          .spread = wanted.spread(),
                          .shrink = wanted.shrink(),
                          .policy = replay::policy_of(wanted.policy())});
}

Status take_replay(RackScenario& scenario, const std::string& file) {
  if (!scenario.has_replay()) return {};
  if (scenario.replay().has_trace()) {
    std::string& trace = *scenario.mutable_replay()->mutable_trace();
    trace = (std::filesystem::path(file).parent_path() / trace).lexically_normal().string();
  }
  PHUB_ASSIGN_OR_RETURN(const replay::ReplayPlan plan, replay_plan_of(scenario));
  const RackReplay& wanted = scenario.replay();
  PHUB_RETURN_IF_ERROR(replay::check_length(plan,
                                            {.blocks = wanted.blocks(),
                                             .iterations = wanted.iterations(),
                                             .warm_up = wanted.warm_up()},
                                            std::chrono::seconds(wanted.timeout_s()),
                                            "replay.timeout_s")
                           .with_context(file));
  RackExchange& exchange = *scenario.mutable_exchange();
  exchange.set_elements(plan.elements());
  exchange.set_dtype(wanted.dtype());
  exchange.set_chunk_kib(wanted.chunk_kib());
  exchange.set_rounds(wanted.iterations());
  exchange.set_warm_up(wanted.warm_up());
  exchange.set_blocks(wanted.blocks());
  exchange.set_timeout_s(wanted.timeout_s());
  exchange.set_wait_s(wanted.timeout_s());
  return {};
}

Result<HostProgram> replay_program(const RackScenario& scenario, const ServedWork& served) {
  PHUB_ASSIGN_OR_RETURN(const replay::ReplayPlan plan, replay_plan_of(scenario));
  return HostProgram{.program = "phub-bench",
                     .words = replay::worker_words({served, served.job}),
                     .config = replay::text_of(plan)};
}

replay::Rates rates_of(const RackScenario& scenario) {
  if (scenario.shape() == "hybrid") {
    return {.why_none = "simulate knows one shape for all keys; compare spread or chain"};
  }
  const Rack& first = scenario.racks(0);
  const auto is_odd = [&first](const Rack& rack) {
    return rack.servers() != first.servers() || rack.workers() == 0;
  };
  if (std::any_of(scenario.racks().begin(), scenario.racks().end(), is_odd)) {
    return {.why_none =
                "simulate knows racks that have workers and as many servers as the others; "
                "give them these"};
  }
  if (is_colocated(scenario)) {
    return {.why_none = "simulate's servers have hosts of their own here; remove racks' colocated"};
  }
  const RackLinks& links = scenario.links();
  const double byte_rate = 1e6 / 8 * replay::payload_share(links.mtu());
  simulate::Network network{
      .workers = workers_of(scenario),
      .rack_workers = first.workers(),
      .servers = first.servers(),
      .alpha = (scenario.replay().alpha_us() + links.latency_us()) / 1e6,
      .worker_rate = byte_rate * links.worker_mbit(),
      .server_rate = byte_rate * links.worker_mbit() * links.server_factor() * first.servers(),
      .uplink_rate = byte_rate * rate_of_uplink(links, first)};
  const auto differs = [&](const Rack& rack) {
    return rack.workers() != first.workers() ||
           rate_of_uplink(links, rack) != rate_of_uplink(links, first);
  };
  if (std::none_of(scenario.racks().begin(), scenario.racks().end(), differs)) {
    return {.network = std::move(network)};
  }
  for (const Rack& rack : scenario.racks()) {
    network.racks_workers.push_back(rack.workers());
    network.racks_uplinks.push_back(byte_rate * rate_of_uplink(links, rack));
  }
  return {.network = std::move(network)};
}

}  // namespace phub::bench
