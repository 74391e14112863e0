#include "bench/rack/replay.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <iterator>

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

bool is_alike(const Rack& a, const Rack& b) {
  return a.workers() == b.workers() && a.servers() == b.servers() &&
         a.uplink_mbit() == b.uplink_mbit();
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
  const Rack& rack = scenario.racks(0);
  const auto differs = [&rack](const Rack& other) { return !is_alike(rack, other); };
  if (std::any_of(scenario.racks().begin(), scenario.racks().end(), differs)) {
    return {.why_none =
                "simulate knows racks that are alike, and these differ; give them the same"};
  }
  if (is_joined(scenario) && scenario.shape() != "spread") {
    return {.why_none =
                "simulate knows this shape for single workers, not for racks of them; "
                "compare shape spread or flat"};
  }
  if (is_colocated(scenario)) {
    return {.why_none = "simulate's servers have hosts of their own here; remove racks' colocated"};
  }
  const RackLinks& links = scenario.links();
  const double byte_rate = 1e6 / 8 * replay::payload_share(links.mtu());
  const double uplink = rack.has_uplink_mbit()
                            ? rack.uplink_mbit()
                            : rack.workers() * links.worker_mbit() / links.oversubscription();
  return {.network =
              simulate::Network{.workers = workers_of(scenario),
                                .rack_workers = rack.workers(),
                                .servers = rack.servers(),
                                .alpha = (scenario.replay().alpha_us() + links.latency_us()) / 1e6,
                                .worker_rate = byte_rate * links.worker_mbit(),
                                .server_rate = byte_rate * links.worker_mbit() *
                                               links.server_factor() * rack.servers(),
                                .uplink_rate = byte_rate * uplink}};
}

}  // namespace phub::bench
