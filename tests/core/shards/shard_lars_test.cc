// Rule lars on a shard: whole keys, norms, and the bits of the specification.
#include <catch2/catch.hpp>
#include <limits>

#include "tests/support/server/shard_rig.h"

namespace phub::testing {
namespace {

using server::JobLayout;
using server::PushResult;

TEST_CASE("lars has the bits of its specification in every order of arrival and wire type") {
  std::mt19937 random(31);
  for (const DataType type : {DataType::kFloat32, DataType::kFloat16, DataType::kBfloat16}) {
    for (const std::uint32_t workers : {1U, 2U, 5U}) {
      CAPTURE(name_of(type), workers);
      ShardRig rig(deferred_layout(RuleKind::kLars, workers, type));
      RuleSpecification specification = initialised(rig, random);
      REQUIRE(rig.completed == rig.shard->chunks());
      REQUIRE(rig.agrees(specification));
      for (std::uint32_t round = 1; round < 6; ++round) {
        rig.completed = 0;
        rig.push_all(random, noise(round));
        rig.update_all_due();
        CHECK(specification.round(rig.layout.hyper, 1.0F, noise(round)) == 0);
        REQUIRE(rig.completed == rig.shard->chunks());
        REQUIRE(rig.agrees(specification));
        REQUIRE(rig.staging->in_use() == 0);
      }
    }
  }
}

TEST_CASE(
    "no chunk of a key is replied to before all of its chunks are there; small keys are alone") {
  ShardRig rig(deferred_layout(RuleKind::kLars, 1, DataType::kFloat32));
  std::mt19937 random(1);
  rig.push_all(random, noise(0));
  // Slots: 0 key 0, 1 to 5 key 1, 6 key 2, 7 and 8 key 3, 9 key 4.
  REQUIRE(rig.shard->chunks() == 10);
  CHECK(rig.push(0, 0, true, noise(1)) == PushResult::kCompleted);
  for (const std::uint32_t slot : {5U, 1U, 3U, 4U}) {
    CHECK(rig.push(0, slot, true, noise(1)) == PushResult::kDeferred);
  }
  CHECK(rig.push(0, 6, true, noise(1)) == PushResult::kCompleted);
  CHECK_FALSE(rig.shard->updates.has_due());
  CHECK(rig.push(0, 2, true, noise(1)) == PushResult::kUpdatesDue);
  CHECK(rig.update_due(3) == std::vector<std::uint32_t>{1, 2, 3});
  CHECK(rig.shard->updates.has_due());
  CHECK(rig.update_due(3) == std::vector<std::uint32_t>{4, 5});
  CHECK_FALSE(rig.shard->updates.has_due());
  CHECK(rig.staging->in_use() == 0);
}

TEST_CASE("a chunk that is updated can be pushed again while its key is still being updated") {
  ShardRig rig(deferred_layout(RuleKind::kLars, 1, DataType::kFloat32));
  std::mt19937 random(1);
  RuleSpecification specification = initialised(rig, random);
  for (std::uint32_t slot = 0; slot < rig.shard->chunks(); ++slot) {
    rig.push(0, slot, false, noise(1));
  }
  rig.update_due(1);  // slot 1 of five
  CHECK(rig.push(0, 1, true, noise(2)) == PushResult::kDeferred);
  rig.update_all_due();
  for (std::uint32_t slot = 0; slot < rig.shard->chunks(); ++slot) {
    if (slot != 1) rig.push(0, slot, false, noise(2));
  }
  rig.update_all_due();
  specification.round(rig.layout.hyper, 1.0F, noise(1));
  specification.round(rig.layout.hyper, 1.0F, noise(2));
  CHECK(rig.agrees(specification));
}

TEST_CASE("a key whose norm is not finite is left out, the others are updated") {
  ShardRig rig(deferred_layout(RuleKind::kLars, 2, DataType::kFloat32));
  std::mt19937 random(2);
  RuleSpecification specification = initialised(rig, random);
  const auto broken = [](std::uint32_t worker, std::uint32_t key, std::uint64_t i) {
    const bool here = worker == 1 && key == 1 && i == 4321;
    return here ? std::numeric_limits<float>::infinity() : noise(1)(worker, key, i);
  };
  rig.push_all(random, broken);
  rig.update_all_due();
  CHECK(specification.round(rig.layout.hyper, 1.0F, broken) == 5);
  CHECK(rig.agrees(specification));
  CHECK(rig.shard->updates.skipped.updates.value() == 5);
  for (std::uint32_t slot = 0; slot < rig.shard->chunks(); ++slot) {
    CHECK(rig.shard->chunk(slot).skipped == (slot >= 1 && slot <= 5));
  }
  rig.push_all(random, noise(2));
  rig.update_all_due();
  specification.round(rig.layout.hyper, 1.0F, noise(2));
  CHECK(rig.agrees(specification));
  CHECK_FALSE(rig.shard->chunk(3).skipped);
}

TEST_CASE("a restored lars job goes on with the bits of the one that was copied") {
  ShardRig rig(deferred_layout(RuleKind::kLars, 1, DataType::kFloat16));
  std::mt19937 random(3);
  rig.push_all(random, noise(0));
  for (std::uint32_t round = 1; round < 3; ++round) {
    rig.push_all(random, noise(round));
    rig.update_all_due();
  }
  auto copy = std::move(*server::JobCopy::create(*rig.layout.plan, 0, 1));
  copy->round = 4;
  REQUIRE(rig.shard->updates.copying.begin(copy));
  for (std::uint32_t slot = 0; slot < 3; ++slot) rig.push(0, slot, true, noise(3));
  CHECK(rig.shard->updates.copying.copy_some(100) ==
        rig.shard->chunks() - 1);  // slot 0 alone has its update
  for (std::uint32_t slot = 3; slot < rig.shard->chunks(); ++slot) {
    rig.push(0, slot, true, noise(3));
  }
  rig.update_all_due();
  CHECK(rig.shard->updates.copying.copy_some(0) == 0);
  rig.shard->updates.copying.end();

  JobLayout layout = rig.layout;
  layout.initial = copy;
  ShardRig second(layout);
  second.push_all(random, noise(99));
  for (std::uint32_t slot = 0; slot < rig.shard->chunks(); ++slot) {
    CHECK(second.reply(slot) == rig.reply(slot));
  }
  rig.push_all(random, noise(4));
  second.push_all(random, noise(4));
  rig.update_all_due();
  second.update_all_due();
  for (std::uint32_t slot = 0; slot < rig.shard->chunks(); ++slot) {
    CHECK(second.reply(slot) == rig.reply(slot));
  }
}

}  // namespace
}  // namespace phub::testing
