// Rules adam, adamw and adagrad on a shard: the specification's bits, and the count of updates that
// corrects their bias.
#include <catch2/catch.hpp>

#include "tests/support/server/shard_rig.h"

namespace phub::testing {
namespace {

using server::JobLayout;
using server::VoteOutcome;

constexpr RuleKind kAdaptiveRules[] = {RuleKind::kAdam, RuleKind::kAdamW, RuleKind::kAdagrad};

void check_same_replies(const ShardRig& first, const ShardRig& second) {
  for (std::uint32_t slot = 0; slot < first.shard->chunks(); ++slot) {
    REQUIRE(second.reply(slot) == first.reply(slot));
  }
}

}  // namespace

TEST_CASE("adaptive rules have the bits of their specification in every order and wire type") {
  std::mt19937 random(51);
  for (const RuleKind rule : kAdaptiveRules) {
    for (const DataType type : {DataType::kFloat32, DataType::kFloat16, DataType::kBfloat16}) {
      for (const std::uint32_t workers : {1U, 3U}) {
        CAPTURE(name_of(rule), name_of(type), workers);
        ShardRig rig(deferred_layout(rule, workers, type));
        RuleSpecification specification(rig.layout);
        specification.initialise(noise(0));
        rig.push_all(random, noise(0));
        for (std::uint32_t round = 1; round < 6; ++round) {
          rig.push_all(random, noise(round));
          specification.round(rig.layout.hyper, 1.0F, noise(round));
          REQUIRE(rig.agrees(specification));
        }
        REQUIRE(rig.staging->in_use() == 0);
      }
    }
  }
}

TEST_CASE("a round that votes leave out is none for the correction of the bias") {
  std::mt19937 random(52);
  for (const RuleKind rule : kAdaptiveRules) {
    CAPTURE(name_of(rule));
    JobLayout layout = deferred_layout(rule, 2, DataType::kFloat32);
    layout.loss_scale.kind = LossScaling::kVoted;
    ShardRig rig(layout);
    RuleSpecification specification(rig.layout);
    specification.initialise(noise(0));
    rig.push_all(random, noise(0));
    for (std::uint32_t round = 1; round < 9; ++round) {
      const std::uint32_t overflow = round < 3 || round == 6 ? 1 : 0;
      rig.push_all(random, noise(round, 4.0F));
      CHECK(rig.shard->vote(0, {.loss_scale = 4.0F}) == VoteOutcome::kAccepted);
      CHECK(rig.shard->vote(1, {.loss_scale = 4.0F, .overflow = overflow}) ==
            VoteOutcome::kUpdatesDue);
      rig.update_all_due();
      if (overflow == 0) specification.round(rig.layout.hyper, 4.0F, noise(round, 4.0F));
      REQUIRE(rig.agrees(specification));
    }
  }
}

TEST_CASE("an adaptive job that is restored goes on with the bits of the one that was copied") {
  std::mt19937 random(53);
  for (const RuleKind rule : kAdaptiveRules) {
    CAPTURE(name_of(rule));
    JobLayout layout = deferred_layout(rule, 1, DataType::kFloat16);
    layout.loss_scale.kind = LossScaling::kVoted;
    ShardRig rig(layout);
    const auto round = [&random](ShardRig& on, std::uint32_t index, std::uint32_t overflow) {
      on.push_all(random, noise(index));
      on.shard->vote(0, {.overflow = overflow});
      on.update_all_due();
    };
    rig.push_all(random, noise(0));
    for (std::uint32_t index = 1; index < 5; ++index) round(rig, index, index == 2 ? 1 : 0);
    auto copy = std::move(*server::JobCopy::create(*layout.plan, 0, state_arrays(rule)));
    copy->round = 5;
    REQUIRE(rig.shard->copying.begin(copy));
    REQUIRE(rig.shard->copying.copy_some(100) == 0);
    rig.shard->copying.end();
    CHECK(copy->left_out() == 1);

    layout.initial = copy;
    ShardRig second(layout);
    second.push_all(random, noise(99));
    check_same_replies(rig, second);
    for (std::uint32_t index = 5; index < 8; ++index) {
      round(rig, index, index == 6 ? 1 : 0);
      round(second, index, index == 6 ? 1 : 0);
      check_same_replies(rig, second);
    }
  }
}

TEST_CASE("worker 0's learning rate holds for an adaptive rule from its round on") {
  std::mt19937 random(54);
  ShardRig rig(deferred_layout(RuleKind::kAdamW, 2, DataType::kFloat32));
  RuleSpecification specification(rig.layout);
  specification.initialise(noise(0));
  rig.push_all(random, noise(0));
  for (std::uint32_t round = 1; round < 4; ++round) {
    rig.layout.hyper.learning_rate /= 2.0F;
    rig.push_all(random, noise(round));
    specification.round(rig.layout.hyper, 1.0F, noise(round));
    REQUIRE(rig.agrees(specification));
  }
}

}  // namespace phub::testing
