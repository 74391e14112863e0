#include "common/config/payload.h"

#include <charconv>
#include <cmath>

#include "common/base/round_policy.h"
#include "common/base/rule.h"

namespace phub {
namespace {

constexpr std::uint32_t kLocalStepsMax = 1'000'000;

void check_share(const TrainConfig& train, ConfigCheck& check) {
  if (!train.has_share()) return;
  check.require(share_weight(train.share()).has_value(), "share",
                fmt::format("\"{}\" is neither \"auto\" nor a number above 0", train.share()));
  check.require(train.devices_size() <= 1, "share",
                "contradicts devices: the part of the batch that it gives may not be divisible by "
                "the GPUs; use one GPU, or remove it");
}

void check_gradients(const TrainConfig& train, ConfigCheck& check) {
  check.require(train.local_steps() == 1, "local_steps",
                fmt::format("{} contradicts payload: \"gradient\", which is pushed in every step; "
                            "use payload: \"delta\" or \"weights\", or remove it",
                            train.local_steps()));
  check.unused_unless(false, "outer", "with payload \"gradient\" (use \"delta\" or \"weights\")");
}

// What is of gradients, or is not kept.
void check_local_steps(const TrainConfig& train, ConfigCheck& check) {
  const std::string payload = fmt::format("payload: \"{}\"", train.payload());
  check.in_range("local_steps", train.local_steps(), 1U, kLocalStepsMax);
  check.require(!train.has_loss_scale(), "loss_scale",
                "contradicts " + payload +
                    ": it is for gradients that travel, and these stay with their worker; remove "
                    "it, or use payload: \"gradient\"");
  check.require(!train.snapshot(), "snapshot",
                "contradicts " + payload +
                    ": a snapshot has nothing of the workers' own steps; remove it, or use "
                    "payload: \"gradient\"");
  check.require(train.resume().empty() || train.restart_momentum(), "resume",
                "with " + payload +
                    " needs restart_momentum: the workers' momentum is in no checkpoint; add it "
                    "(--restart-momentum)");
  check.require(!train.has_share(), "share",
                "contradicts " + payload +
                    ": the mean of the workers' is not weighed by images; remove it, or use "
                    "payload: \"gradient\"");
  check.require(
      train.gpu_direct() != "required", "gpu_direct",
      "\"required\" contradicts " + payload + ": no gradient leaves its worker; use \"auto\"");
}

void check_delta(const OuterConfig& outer, ConfigCheck& check) {
  check.unused_unless(false, "elasticity", "with payload \"delta\" (use \"weights\")");
  if (outer.has_rule()) check.one_of("rule", outer.rule(), {"sgd", "momentum", "nesterov"});
  check.unused_unless(outer.rule() != "sgd", "momentum",
                      "with rule \"sgd\" (choose \"momentum\" or \"nesterov\")");
  const float rate = outer.learning_rate();
  check.require(std::isfinite(rate) && rate > 0.0F, "learning_rate",
                fmt::format("{} is not above 0", rate));
  const float momentum = outer.momentum();
  check.require(momentum >= 0.0F && momentum < 1.0F, "momentum",
                fmt::format("{} is not at least 0 and below 1", momentum));
  check.require(outer.mix() >= 0.0F && outer.mix() < 1.0F, "mix",
                fmt::format("{} is not at least 0 and below 1: with 1 a worker would take nothing",
                            outer.mix()));
}

// How many pushes a round has says how far these move the centre: less than the whole way.
void check_elasticity(const WorkerConfig& config, float elasticity, ConfigCheck& check) {
  const RoundsConfig& rounds = config.rounds();
  const std::uint32_t pushes =
      most_pushes({.quorum = rounds.quorum(), .grace_ms = rounds.grace_ms()}, config.workers());
  check.require(std::isfinite(elasticity) && elasticity > 0.0F, "elasticity",
                fmt::format("{} is not above 0", elasticity));
  check.require(
      elasticity * static_cast<float>(pushes) < 1.0F, "elasticity",
      fmt::format("{} times {} pushes of a round ({}) is 1 or more, so that the centre "
                  "would go beyond the workers' mean; lower it below {:.4g}, or remove it "
                  "for 0.9 / workers",
                  elasticity, pushes, config.has_rounds() ? "rounds" : "workers", 1.0 / pushes));
}

void check_weights(const WorkerConfig& config, ConfigCheck& check) {
  const OuterConfig& outer = config.train().outer();
  if (outer.has_rule()) check.one_of("rule", outer.rule(), {"elastic"});
  check.unused_unless(false, "learning_rate",
                      "with payload \"weights\" (set elasticity, and optimizer.learning_rate of "
                      "the workers' steps)");
  check.unused_unless(false, "momentum", "with payload \"weights\" (set optimizer.momentum)");
  check.unused_unless(false, "mix", "with payload \"weights\" (set elasticity)");
  check_elasticity(config, elasticity_of(config), check);
  check.require(!config.rounds().turns() || outer.overlap_steps() == 0, "overlap_steps",
                fmt::format("{} contradicts rounds.turns: a worker that has pushed waits for its "
                            "turn before it computes; remove one of them",
                            outer.overlap_steps()));
}

void check_fragments(const TrainConfig& train, ConfigCheck& check) {
  const OuterConfig& outer = train.outer();
  check.require(outer.fragments() >= 1 && outer.fragments() <= train.local_steps(), "fragments",
                fmt::format("{} is not from 1 to {}, train.local_steps: each needs a step of its "
                            "own; lower it, or raise local_steps",
                            outer.fragments(), train.local_steps()));
  // Weights are pushed before a step, deltas after one.
  const bool is_before = train.payload() == "weights";
  const std::uint64_t end = std::uint64_t{train.local_steps()} + (is_before ? 1 : 0);
  check.require(
      outer.overlap_steps() < end, "overlap_steps",
      fmt::format("{} is {} {}, train.local_steps: a key is taken before it is "
                  "pushed again; lower it, or raise local_steps",
                  outer.overlap_steps(), is_before ? "above" : "not below", train.local_steps()));
}

// Turns are a chunk's: of two fragments each worker would wait for the other's.
void check_turns(const WorkerConfig& config, ConfigCheck& check) {
  const std::uint32_t fragments = config.train().outer().fragments();
  check.require(!config.rounds().turns() || fragments == 1, "fragments",
                fmt::format("{} contradicts rounds.turns: who waits for its turn with one fragment "
                            "cannot push the others, which the next worker waits for; remove one "
                            "of them",
                            fragments));
}

}  // namespace

float elasticity_of(const WorkerConfig& config) {
  const OuterConfig& outer = config.train().outer();
  return outer.has_elasticity() ? outer.elasticity() : default_elasticity(config.workers());
}

float mix_of(const OuterConfig& outer) {
  constexpr float kWithOverlap = 0.5F;
  return outer.has_mix() || outer.overlap_steps() == 0 ? outer.mix() : kWithOverlap;
}

std::optional<float> share_weight(const std::string& share) {
  if (share == "auto") return 0.0F;
  float weight = 0.0F;
  const char* const end = share.data() + share.size();
  const auto parsed = std::from_chars(share.data(), end, weight);
  const bool is_number = parsed.ec == std::errc() && parsed.ptr == end;
  if (!is_number || !std::isfinite(weight) || weight <= 0.0F) return std::nullopt;
  return weight;
}

void check_payload(const WorkerConfig& config, ConfigCheck check) {
  const TrainConfig& train = config.train();
  check.one_of("payload", train.payload(), {"gradient", "delta", "weights"});
  check_share(train, check);
  if (train.payload() == "gradient") return check_gradients(train, check);
  check_local_steps(train, check);
  check.require(!config.optimizer().has_clip_norm(), "payload",
                fmt::format("\"{}\" contradicts optimizer.clip_norm: a step's norm is known at its "
                            "end, and keys are updated before; leave one of the two out",
                            train.payload()));
  ConfigCheck outer = check.nested("outer", train.outer());
  train.payload() == "delta" ? check_delta(train.outer(), outer) : check_weights(config, outer);
  check_fragments(train, outer);
  check_turns(config, outer);
}

}  // namespace phub
