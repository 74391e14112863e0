// What a job may say of its rule: options of others are refused by name, with the cure.
#include <catch2/catch.hpp>
#include <cmath>
#include <functional>

#include "common/protocol/job_message.h"
#include "server/job/spec/check.h"

namespace phub::server {
namespace {

using Catch::Matchers::Contains;

// Of a job with this rule.
std::string refusal(RuleKind rule, const std::function<void(JobSpec&)>& change) {
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
  CHECK_THAT(refusal(RuleKind::kMomentum, epsilon(1e-6)), Contains("epsilon: rule momentum has"));
  CHECK_THAT(refusal(RuleKind::kLars, epsilon(1e-6)), Contains("of lars it is trust_epsilon"));
  CHECK_THAT(refusal(RuleKind::kSgd, beta1(0.5)), Contains("beta1: rule sgd has none"));
  CHECK_THAT(refusal(RuleKind::kAdagrad, beta2(0.5)), Contains("beta2: rule adagrad has none"));
  for (const RuleKind rule :
       {RuleKind::kAdam, RuleKind::kAdamW, RuleKind::kAdagrad, RuleKind::kLamb}) {
    CHECK(refusal(rule, epsilon(1e-3)).empty());
    for (const double wrong : {-1e-8, 1e-40, 1e40, std::nan(""), HUGE_VAL}) {
      CHECK_THAT(refusal(rule, epsilon(wrong)), Contains("epsilon: ") && Contains("must be from"));
    }
    CHECK_THAT(refusal(rule, [](JobSpec& spec) { spec.hyper.momentum = 0.9F; }),
               Contains("momentum: rule " + std::string(name_of(rule)) + " has none"));
  }
  for (const RuleKind rule : {RuleKind::kAdam, RuleKind::kAdamW, RuleKind::kLamb}) {
    CHECK(refusal(rule, beta1(0.0)).empty());
    for (const double wrong : {1.0, -0.5, std::nan("")}) {
      CHECK_THAT(refusal(rule, beta1(wrong)), Contains("beta1: ") && Contains("outside [0, 1)"));
      CHECK_THAT(refusal(rule, beta2(wrong)), Contains("beta2: ") && Contains("outside [0, 1)"));
    }
  }
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
    CHECK(refusal(rule, clips(1.0F)).empty());
    CHECK(refusal(rule, averages(0.999)).empty());
  }
  CHECK(refusal(RuleKind::kLars, averages(0.999)).empty());
  for (const float wrong : {-1.0F, std::nanf(""), HUGE_VALF}) {
    CHECK_THAT(refusal(RuleKind::kSgd, clips(wrong)), Contains("clip_norm: "));
  }
  for (const double wrong : {-0.1, 1.0, std::nan("")}) {
    CHECK_THAT(refusal(RuleKind::kSgd, averages(wrong)), Contains("ema_decay: "));
  }
  CHECK_THAT(refusal(RuleKind::kMean, clips(1.0F)), Contains("clip_norm: rule mean"));
  CHECK_THAT(refusal(RuleKind::kMean, averages(0.5)), Contains("ema_decay: rule mean"));
  CHECK_THAT(refusal(RuleKind::kLars, clips(1.0F)), Contains("clip_norm: rule lars"));
  const auto both = [&](const auto& change) {
    return [&racks, change](JobSpec& spec) {
      racks(spec);
      change(spec);
    };
  };
  CHECK(refusal(RuleKind::kSgd, racks).empty());
  CHECK_THAT(refusal(RuleKind::kSgd, both(clips(1.0F))), Contains("one of clip_norm and racks"));
  CHECK_THAT(refusal(RuleKind::kSgd, both(averages(0.5))), Contains("one of ema_decay and racks"));
}

TEST_CASE("a rule's options cross the control plane, and defaults are those that hold") {
  JobSpec spec{.rule = RuleKind::kAdamW, .keys = {{"w", 10}}};
  spec.adaptive = {.beta1 = 0.0, .beta2 = 0.95, .epsilon = 1e-6};
  spec.clip_norm = 2.5F;
  spec.ema_decay = 0.999;
  control::JobSpec message;
  fill(spec, message);
  add_keys(spec.keys, message);
  const auto read = spec_from(message);
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
