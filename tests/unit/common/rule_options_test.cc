// What a job may say of its rule: options of others are refused by name, with the cure.
#include <catch2/catch.hpp>
#include <cmath>
#include <functional>

#include "common/job/check.h"
#include "common/job/used_hyper.h"
#include "tests/support/server/carried_spec.h"

namespace phub::server {
namespace {

using Catch::Matchers::Contains;

// Of a job with this rule.
std::string rule_refusal(RuleKind rule, const std::function<void(JobSpec&)>& change) {
  JobSpec spec{.rule = rule, .keys = {{"w", 10}}};
  change(spec);
  return validate(spec).message();
}

}  // namespace

TEST_CASE("options of adaptive rules are refused with other rules, and out of their range") {
  const auto epsilon = [](double value) {
    return [value](JobSpec& spec) { spec.adaptive.epsilon = value; };
  };
  const auto beta1 = [](double value) {
    return [value](JobSpec& spec) { spec.adaptive.beta1 = value; };
  };
  const auto beta2 = [](double value) {
    return [value](JobSpec& spec) { spec.adaptive.beta2 = value; };
  };
  CHECK_THAT(rule_refusal(RuleKind::kMomentum, epsilon(1e-6)),
             Contains("epsilon: 1e-06 contradicts rule: momentum"));
  CHECK_THAT(rule_refusal(RuleKind::kLars, epsilon(1e-6)), Contains("of lars it is trust_epsilon"));
  CHECK_THAT(rule_refusal(RuleKind::kSgd, beta1(0.5)),
             Contains("beta1: 0.5 contradicts rule: sgd"));
  CHECK_THAT(rule_refusal(RuleKind::kAdagrad, beta2(0.5)),
             Contains("beta2: 0.5 contradicts rule: adagrad"));
  for (const RuleKind rule :
       {RuleKind::kAdam, RuleKind::kAdamW, RuleKind::kAdagrad, RuleKind::kLamb}) {
    CHECK(rule_refusal(rule, epsilon(1e-3)).empty());
    for (const double wrong : {-1e-8, 1e-40, 1e40, std::nan(""), HUGE_VAL}) {
      CHECK_THAT(rule_refusal(rule, epsilon(wrong)),
                 Contains("epsilon: ") && Contains("must be from"));
    }
    CHECK_THAT(rule_refusal(rule, [](JobSpec& spec) { spec.hyper.momentum = 0.9F; }),
               Contains("momentum: 0.9 contradicts rule: " + std::string(name_of(rule))));
  }
  for (const RuleKind rule : {RuleKind::kAdam, RuleKind::kAdamW, RuleKind::kLamb}) {
    CHECK(rule_refusal(rule, beta1(0.0)).empty());
    for (const double wrong : {1.0, -0.5, std::nan("")}) {
      CHECK_THAT(rule_refusal(rule, beta1(wrong)),
                 Contains("beta1: ") && Contains("outside [0, 1)"));
      CHECK_THAT(rule_refusal(rule, beta2(wrong)),
                 Contains("beta2: ") && Contains("outside [0, 1)"));
    }
  }
}

TEST_CASE("what a rule reads of hyper-parameters is kept, and nothing else") {
  constexpr Hyper kAll = {
      .learning_rate = 0.5F, .momentum = 0.9F, .gradient_scale = 0.25F, .samples = 4.0F};
  CHECK(used_by(RuleKind::kSum, kAll).learning_rate == 0.0F);
  CHECK(used_by(RuleKind::kMean, kAll).momentum == 0.0F);
  CHECK(used_by(RuleKind::kSgd, kAll).learning_rate == 0.5F);
  for (const RuleKind rule : {RuleKind::kSgd, RuleKind::kAdamW, RuleKind::kElastic}) {
    CHECK(used_by(rule, kAll).momentum == 0.0F);
  }
  for (const RuleKind rule : {RuleKind::kMomentum, RuleKind::kNesterov, RuleKind::kLars}) {
    CHECK(used_by(rule, kAll).momentum == 0.9F);
  }
  CHECK(used_by(RuleKind::kSum, kAll).gradient_scale == 0.25F);
  CHECK(used_by(RuleKind::kSum, kAll).samples == 4.0F);
}

TEST_CASE("clipping and averaging are refused where they cannot be") {
  const auto clips = [](float norm) { return [norm](JobSpec& spec) { spec.clip_norm = norm; }; };
  const auto averages = [](double decay) {
    return [decay](JobSpec& spec) { spec.ema_decay = decay; };
  };
  const auto racks = [](JobSpec& spec) {
    spec.workers = 2;
    spec.racks = {{"a", 1}, {"b", 1}};
  };
  for (const RuleKind rule : {RuleKind::kSgd, RuleKind::kAdamW, RuleKind::kLamb}) {
    CHECK(rule_refusal(rule, clips(1.0F)).empty());
    CHECK(rule_refusal(rule, averages(0.999)).empty());
  }
  CHECK(rule_refusal(RuleKind::kLars, averages(0.999)).empty());
  for (const float wrong : {-1.0F, std::nanf(""), HUGE_VALF}) {
    CHECK_THAT(rule_refusal(RuleKind::kSgd, clips(wrong)), Contains("clip_norm: "));
  }
  for (const double wrong : {-0.1, 1.0, std::nan("")}) {
    CHECK_THAT(rule_refusal(RuleKind::kSgd, averages(wrong)), Contains("ema_decay: "));
  }
  CHECK_THAT(rule_refusal(RuleKind::kMean, clips(1.0F)),
             Contains("clip_norm: 1 contradicts rule: mean"));
  CHECK_THAT(rule_refusal(RuleKind::kMean, averages(0.5)),
             Contains("ema_decay: 0.5 contradicts rule: mean"));
  CHECK_THAT(rule_refusal(RuleKind::kLars, clips(1.0F)),
             Contains("clip_norm: 1 contradicts rule: lars"));
  const auto both = [&](const auto& change) {
    return [&racks, change](JobSpec& spec) {
      racks(spec);
      change(spec);
    };
  };
  CHECK(rule_refusal(RuleKind::kSgd, racks).empty());
  CHECK_THAT(rule_refusal(RuleKind::kSgd, both(clips(1.0F))),
             Contains("clip_norm: 1 contradicts racks: a:1,b:1"));
  CHECK(rule_refusal(RuleKind::kSgd, both(averages(0.5))).empty());
}

TEST_CASE(
    "what is of gradients, or takes the centre beyond the workers, is refused with rule elastic") {
  const auto refused = [](const std::function<void(JobSpec&)>& change) {
    return rule_refusal(RuleKind::kElastic, [&](JobSpec& spec) {
      spec.workers = 4;
      spec.hyper.learning_rate = default_elasticity(4);
      change(spec);
    });
  };
  CHECK(refused([](JobSpec&) {}).empty());
  CHECK(refused([](JobSpec& spec) { spec.ema_decay = 0.99; }).empty());
  CHECK(refused([](JobSpec& spec) { spec.hyper.gradient_scale = 0.25F; }).empty());
  CHECK_THAT(refused([](JobSpec& spec) { spec.hyper.learning_rate = 0.25F; }),
             Contains("learning_rate: rule elastic moves the centre by 0.25 for each of the 4") &&
                 Contains("less than 1 / 4"));
  CHECK_THAT(refused([](JobSpec& spec) { spec.hyper.momentum = 0.5F; }), Contains("momentum: "));
  CHECK_THAT(refused([](JobSpec& spec) { spec.hyper.gradient_scale = 1.0F; }),
             Contains("gradient_scale: ") && Contains("leave it out"));
  CHECK_THAT(refused([](JobSpec& spec) { spec.clip_norm = 1.0F; }), Contains("clip_norm: "));
  CHECK_THAT(refused([](JobSpec& spec) { spec.loss_scale.kind = LossScaling::kVoted; }),
             Contains("loss_scaling: "));
  CHECK_THAT(refused([](JobSpec& spec) { spec.encoding = Encoding::kInt8; }),
             Contains("encoding: int8") && Contains("leave it out"));
  CHECK_THAT(refused([](JobSpec& spec) { spec.keys[0].weight_decay = 0.1F; }),
             Contains("keys[0].weight_decay: \"w\"") && Contains("workers decay"));
  // A round of a quorum has fewer pushes, and with a grace perhaps all.
  const auto with = [&](const RoundPolicy& rounds, float elasticity) {
    return refused([&](JobSpec& spec) {
      spec.deterministic = false;
      spec.rounds = rounds;
      spec.hyper.learning_rate = elasticity;
    });
  };
  CHECK(with({.quorum = 1, .late = LatePushes::kAdd}, 0.9F).empty());
  CHECK(with({.quorum = 3}, 0.3F).empty());
  CHECK_THAT(with({.quorum = 3}, 0.4F), Contains("each of the 3 pushes"));
  CHECK_THAT(with({.quorum = 3, .grace_ms = 5}, 0.3F), Contains("each of the 4 pushes"));
  CHECK_THAT(with({.quorum = 1, .late = LatePushes::kAdd, .weight = PushWeight::kStaleness}, 0.2F),
             Contains("rounds.weight: staleness") && Contains("choose one"));
}

TEST_CASE("a rule's options cross the control plane, and defaults are those that hold") {
  JobSpec spec{.rule = RuleKind::kAdamW, .keys = {{"w", 10}}};
  spec.adaptive = {.beta1 = 0.0, .beta2 = 0.95, .epsilon = 1e-6};
  spec.clip_norm = 2.5F;
  spec.ema_decay = 0.999;
  const auto read = testing::carried(spec);
  REQUIRE(read);
  CHECK(read->adaptive == spec.adaptive);
  CHECK(read->clip_norm == 2.5F);
  CHECK(read->ema_decay == 0.999);

  JobSpec plain{.rule = RuleKind::kAdagrad, .keys = {{"w", 10}}};
  JobSpec said = plain;
  said.adaptive.epsilon = 1e-10;
  CHECK(compare(plain, said).ok());
  said.adaptive.epsilon = 1e-8;
  CHECK_THAT(compare(plain, said).message(), Contains("epsilon is 1e-10 in the job but 1e-08"));
  JobSpec other = spec;
  other.adaptive.beta1 = 0.9;
  CHECK_THAT(compare(spec, other).message(), Contains("beta1 is 0 in the job but 0.9"));
  other = spec;
  other.clip_norm = 1.0F;
  CHECK_THAT(compare(spec, other).message(), Contains("clip_norm is 2.5 in the job but 1"));
  other = spec;
  other.ema_decay = 0.5;
  CHECK_THAT(compare(spec, other).message(), Contains("ema_decay is 0.999 in the job but 0.5"));
}

}  // namespace phub::server
