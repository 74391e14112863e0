// Random jobs: most of them are refused for a contradiction, and the others can be run.
#pragma once

#include <iterator>
#include <random>
#include <string>

#include "common/job/spec.h"

namespace phub::testing {

class RandomSpec {
 public:
  explicit RandomSpec(std::uint64_t seed) : random_(seed) {}

  // Of numbers that are in their bounds.
  JobSpec next() {
    JobSpec spec{.name = "random",
                 .workers = 2 + pick(4),
                 .rule = static_cast<RuleKind>(pick(std::size(kRuleWords.words))),
                 .deterministic = !seldom(),
                 .chunk_bytes = 4096U << pick(3)};
    spec.keys = {{"a", 1 + pick(5000)}, {"b", 1 + pick(200)}};
    if (has_parameters(spec.rule) || rarely()) spec.hyper.learning_rate = 0.01F;
    if (has_momentum(spec.rule) || rarely()) spec.hyper.momentum = 0.9F;
    if (rarely()) spec.hyper.gradient_scale = 0.125F;
    if (rarely()) spec.lars.coefficient = 0.01F;
    if (rarely()) spec.lars.epsilon = 1e-6F;
    if (rarely()) spec.adaptive.beta1 = 0.5;
    if (rarely()) spec.adaptive.beta2 = 0.5;
    if (rarely()) spec.adaptive.epsilon = 1e-3;
    if (seldom()) spec.clip_norm = 0.5F;
    if (seldom()) spec.ema_decay = 0.9;
    if (seldom()) spec.wire_type = static_cast<DataType>(1 + pick(2));
    if (seldom()) spec.encoding = static_cast<Encoding>(1 + pick(3));
    if (seldom()) spec.checksums = true;
    if (seldom()) spec.tcp_streams = 2;
    if (seldom()) spec.whole_replies = true;
    if (seldom()) spec.watch_values = static_cast<WatchValues>(1 + pick(2));
    if (seldom()) spec.loss_scale.kind = static_cast<LossScaling>(1 + pick(2));
    if (spec.loss_scale.kind == LossScaling::kStatic || rarely()) spec.loss_scale.factor = 8.0F;
    if (seldom()) add_racks(spec);
    if (rarely()) spec.rack_shape = static_cast<RackShape>(pick(6));
    if (rarely()) spec.rack_hybrid_bytes = 8192;
    if (rarely()) spec.rack_wire_type = DataType::kBfloat16;
    if (rarely()) spec.rack_compress.density = 0.25F;
    if (rarely()) spec.rack_local.steps = 2;
    if (rarely()) spec.rack_local.learning_rate = 0.5F;
    if (rarely()) spec.rack_local.momentum = 0.75F;
    if (rarely()) spec.rack_local.quorum = 1 + pick(3);
    if (rarely()) spec.rack_local.wait_ms = 50;
    const bool has_quorum = spec.racks.empty() || spec.workers > 2;
    if (has_quorum && seldom()) add_rounds(spec);
    if (rarely()) spec.rounds.grace_ms = 5;
    if (rarely()) spec.rounds.patience_ms = 100;
    if (rarely()) spec.rounds.staleness = 2;
    if (rarely()) spec.rounds.late = LatePushes::kAdd;
    if (rarely()) spec.rounds.weight = static_cast<PushWeight>(1 + pick(2));
    if (rarely()) spec.rounds.turns = true;
    if (rarely()) spec.rounds.hogwild = true;
    if (is_elastic(spec.rule)) {
      spec.hyper.learning_rate = 0.9F / static_cast<float>(spec.workers);
    }
    return spec;
  }

 private:
  std::uint32_t pick(std::size_t count) {
    return std::uniform_int_distribution<std::uint32_t>(
        0, static_cast<std::uint32_t>(count) - 1)(random_);
  }
  bool seldom() { return pick(6) == 0; }
  bool rarely() { return pick(16) == 0; }

  void add_racks(JobSpec& spec) {
    spec.racks = {{"site1/a", 1}, {"site2/b", spec.workers - 1}};
    spec.rack_shape = static_cast<RackShape>(pick(6));
    if (pick(3) == 0) spec.rack_compress.density = 0.25F;
    if (pick(3) == 0) spec.rack_wire_type = DataType::kFloat16;
    if (pick(3) == 0) spec.rack_local = {.steps = 2 + pick(2), .learning_rate = 0.5F};
    if (spec.rack_local.is_on() && pick(2) == 0) spec.rack_local.quorum = 1 + pick(2);
    if (spec.rack_local.goes_on()) {
      spec.rack_shape = RackShape::kSpread;
      spec.deterministic = rarely();
    }
  }

  void add_rounds(JobSpec& spec) {
    spec.rounds.quorum = 1 + pick(spec.workers - (spec.racks.empty() ? 1 : 2));
    spec.deterministic = rarely();
    if (pick(2) == 0) return;
    spec.rounds.late = LatePushes::kAdd;
    if (pick(2) == 0) spec.rounds.quorum = 1;
    if (pick(3) == 0) spec.rounds.turns = true;
    if (pick(3) == 0) spec.rounds.hogwild = true;
  }

  std::mt19937_64 random_;
};

}  // namespace phub::testing
