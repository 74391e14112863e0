// Jobs with more workers than the kernels take sources, and than a word has bits.
#include <catch2/catch.hpp>

#include "tests/support/server/shard_rig.h"

namespace phub::testing {
namespace {

void expect_rounds(ShardRig& rig, bool votes, std::mt19937& random) {
  RuleSpecification specification = initialised(rig, random);
  REQUIRE(rig.completed == rig.shard->chunks());
  for (std::uint32_t round = 1; round < 4; ++round) {
    rig.completed = 0;
    rig.push_all(random, noise(round));
    for (std::uint32_t w = 0; votes && w < rig.layout.workers; ++w) {
      const bool is_last = w + 1 == rig.layout.workers;
      CHECK(rig.shard->vote(w, {.loss_scale = 1.0F, .overflow = 0}) ==
            (is_last ? server::VoteOutcome::kUpdatesDue : server::VoteOutcome::kAccepted));
      if (!is_last) {
        CHECK(rig.shard->vote(w, {.loss_scale = 1.0F, .overflow = 0}) ==
              server::VoteOutcome::kDuplicate);
      }
    }
    rig.update_all_due();
    specification.round(rig.layout.hyper, 1.0F, noise(round));
    REQUIRE(rig.completed == rig.shard->chunks());
    REQUIRE(rig.agrees(specification));
    REQUIRE(rig.staging->in_use() == 0);
  }
}

}  // namespace

TEST_CASE("sums of very many workers have the specification's bits, in place or staged") {
  std::mt19937 random(51);
  for (const std::uint32_t workers : {64U, 65U, 127U, 128U, 1024U}) {
    for (const DataType type : {DataType::kFloat32, DataType::kFloat16}) {
      CAPTURE(workers, name_of(type));
      ShardRig rig(deferred_layout(RuleKind::kMomentum, workers, type));
      expect_rounds(rig, false, random);
    }
  }
}

TEST_CASE("very many workers vote once each") {
  std::mt19937 random(52);
  for (const std::uint32_t workers : {65U, 1024U}) {
    server::JobLayout layout = deferred_layout(RuleKind::kMomentum, workers, DataType::kFloat32);
    layout.loss_scale.kind = LossScaling::kVoted;
    ShardRig rig(layout);
    expect_rounds(rig, true, random);
  }
}

TEST_CASE("a worker beyond the first word of them pushes a chunk once in a round") {
  ShardRig rig(deferred_layout(RuleKind::kMomentum, 1024, DataType::kFloat32));
  CHECK(rig.push(1023, 0, true, noise(0)) == server::PushResult::kAccepted);
  CHECK(rig.push(1023, 0, true, noise(0)) == server::PushResult::kDuplicate);
  CHECK(rig.push(1023 - 64, 0, true, noise(0)) == server::PushResult::kAccepted);
}

}  // namespace phub::testing
