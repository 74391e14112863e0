// Rule lamb on a shard: the specification's bits, what is made before its norm is known, and copies
// in the midst of an update.
#include <catch2/catch.hpp>
#include <limits>

#include "tests/support/server/shard_rig.h"

namespace phub::testing {
namespace {

using server::JobLayout;
using server::PushResult;
using server::VoteOutcome;

// Until all that is due is updated, in the core's steps.
void update_in_steps(ShardRig& rig) {
  while (rig.shard->updates.has_due()) {
    if (!rig.shard->updates.prepare_due()) rig.update_due(1);
  }
}

}  // namespace

TEST_CASE("lamb has the bits of its specification in every order of arrival and wire type") {
  std::mt19937 random(71);
  for (const DataType type : {DataType::kFloat32, DataType::kFloat16, DataType::kBfloat16}) {
    for (const std::uint32_t workers : {1U, 2U, 5U}) {
      for (const float clip_norm : {0.0F, 0.5F}) {
        CAPTURE(name_of(type), workers, clip_norm);
        JobLayout layout = deferred_layout(RuleKind::kLamb, workers, type);
        layout.clip_norm = clip_norm;
        ShardRig rig(layout);
        RuleSpecification specification = initialised(rig, random);
        REQUIRE(rig.agrees(specification));
        for (std::uint32_t round = 1; round < 6; ++round) {
          rig.completed = 0;
          rig.push_all(random, noise(round));
          round % 2 == 0 ? rig.update_all_due() : update_in_steps(rig);
          CHECK(specification.round(rig.layout.hyper, 1.0F, noise(round)) == 0);
          REQUIRE(rig.completed == rig.shard->chunks());
          REQUIRE(rig.agrees(specification));
          REQUIRE(rig.staging->in_use() == 0);
        }
      }
    }
  }
}

TEST_CASE("lamb leaves out rounds by votes, and keys whose gradient is not finite") {
  std::mt19937 random(72);
  JobLayout layout = deferred_layout(RuleKind::kLamb, 2, DataType::kFloat32);
  layout.loss_scale.kind = LossScaling::kVoted;
  ShardRig rig(layout);
  RuleSpecification specification = initialised(rig, random);
  for (std::uint32_t round = 1; round < 9; ++round) {
    const std::uint32_t overflow = round < 3 || round == 6 ? 1 : 0;
    const auto gradients = [&](std::uint32_t worker, std::uint32_t key, std::uint64_t i) {
      const bool is_wrong = round == 4 && worker == 1 && key == 1 && i == 4321;
      return is_wrong ? std::numeric_limits<float>::infinity() : noise(round, 4.0F)(worker, key, i);
    };
    rig.push_all(random, gradients);
    CHECK(rig.shard->vote(0, {.loss_scale = 4.0F}) == VoteOutcome::kAccepted);
    CHECK(rig.shard->vote(1, {.loss_scale = 4.0F, .overflow = overflow}) ==
          VoteOutcome::kUpdatesDue);
    update_in_steps(rig);
    if (overflow == 0) {
      CHECK(specification.round(rig.layout.hyper, 4.0F, gradients) == (round == 4 ? 5 : 0));
    }
    REQUIRE(rig.agrees(specification));
  }
  CHECK(rig.shard->updates.skipped.rounds.value() == 3);
  CHECK(rig.shard->updates.skipped.updates.value() == 5);
}

TEST_CASE("a chunk of lamb is pushed again while its key is still being updated") {
  ShardRig rig(deferred_layout(RuleKind::kLamb, 1, DataType::kFloat32));
  std::mt19937 random(73);
  RuleSpecification specification = initialised(rig, random);
  for (std::uint32_t slot = 1; slot < 6; ++slot) rig.push(0, slot, true, noise(1));
  REQUIRE(rig.update_due(1) == std::vector<std::uint32_t>{1});
  CHECK(rig.push(0, 1, true, noise(2)) == PushResult::kDeferred);
  for (const std::uint32_t slot : {0U, 6U, 7U, 8U, 9U}) rig.push(0, slot, true, noise(1));
  update_in_steps(rig);
  for (std::uint32_t slot = 0; slot < rig.shard->chunks(); ++slot) {
    if (slot != 1) rig.push(0, slot, true, noise(2));
  }
  update_in_steps(rig);
  specification.round(rig.layout.hyper, 1.0F, noise(1));
  specification.round(rig.layout.hyper, 1.0F, noise(2));
  CHECK(rig.agrees(specification));
}

TEST_CASE("a copy of a lamb job has the state that its parameters go with, wherever it begins") {
  // After so many of the steps of round 3's updates, of key 1's five chunks and the others.
  for (std::uint32_t begins_after = 0; begins_after < 12; ++begins_after) {
    for (const std::uint64_t at : {3U, 4U}) {
      CAPTURE(begins_after, at);
      std::mt19937 random(74);
      ShardRig rig(deferred_layout(RuleKind::kLamb, 1, DataType::kFloat32));
      RuleSpecification specification(rig.layout);
      specification.initialise(noise(0));
      const auto round = [&](std::uint32_t number) {
        for (std::uint32_t slot = 0; slot < rig.shard->chunks(); ++slot) {
          rig.push(0, slot, true, noise(number));
        }
      };
      round(0);
      for (std::uint32_t number = 1; number < 3; ++number) {
        round(number);
        update_in_steps(rig);
      }
      round(3);
      auto copy = std::move(*server::JobCopy::create(*rig.layout.plan, 0, 2));
      copy->round = at;  // 3 are behind all, with that of initial values
      std::uint32_t steps = 0;
      bool begun = false;
      const auto begin = [&] {
        if (steps++ != begins_after) return;
        begun = rig.shard->updates.copying.begin(copy);
        CHECK(begun == (at == 4 || begins_after == 0));
        if (begun) rig.shard->updates.copying.copy_some(100);
      };
      begin();
      while (rig.shard->updates.has_due()) {
        if (!rig.shard->updates.prepare_due()) rig.update_due(1);
        begin();
      }
      if (!begun) continue;
      CHECK(rig.shard->updates.copying.copy_some(100) == 0);
      rig.shard->updates.copying.end();
      JobLayout layout = rig.layout;
      layout.initial = copy;
      ShardRig second(layout);
      second.push_all(random, noise(99));
      for (std::uint32_t number = static_cast<std::uint32_t>(at); number < 6; ++number) {
        second.push_all(random, noise(number));
        update_in_steps(second);
      }
      for (std::uint32_t number = 1; number < 6; ++number) {
        specification.round(rig.layout.hyper, 1.0F, noise(number));
      }
      CHECK(second.agrees(specification));
    }
  }
}

}  // namespace phub::testing
