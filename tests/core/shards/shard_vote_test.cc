// Loss scale on a shard: votes that skip a round everywhere or nowhere, and sums that are not
// finite.
#include <catch2/catch.hpp>
#include <limits>

#include "tests/support/server/shard_rig.h"

namespace phub::testing {
namespace {

using server::JobLayout;
using server::PushResult;
using server::VoteOutcome;

JobLayout voted_layout(RuleKind rule, std::uint32_t workers, DataType type) {
  JobLayout layout = deferred_layout(rule, workers, type);
  layout.loss_scale.kind = LossScaling::kVoted;
  return layout;
}

// All pushes and all votes, mixed: each worker's vote comes anywhere in the round.
void voted_round(ShardRig& rig, std::mt19937& random, std::uint32_t round, float scale,
                 std::uint32_t overflows) {
  rig.completed = 0;
  const std::uint32_t early = static_cast<std::uint32_t>(random() % (rig.layout.workers + 1));
  for (std::uint32_t w = 0; w < rig.layout.workers; ++w) {
    if (w == early) rig.push_all(random, noise(round, scale));
    rig.shard->vote(w, {.loss_scale = scale, .overflow = (overflows >> w) & 1U});
    if (random() % 2 == 0) rig.update_due(2);
  }
  if (early == rig.layout.workers) rig.push_all(random, noise(round, scale));
  rig.update_all_due();
}

TEST_CASE("voted rounds have the specification's bits; one vote against skips all of a round") {
  std::mt19937 random(41);
  for (const RuleKind rule : {RuleKind::kSgd, RuleKind::kMomentum, RuleKind::kLars}) {
    for (const DataType type : {DataType::kFloat32, DataType::kFloat16}) {
      for (const std::uint32_t workers : {1U, 3U}) {
        CAPTURE(name_of(rule), name_of(type), workers);
        ShardRig rig(voted_layout(rule, workers, type));
        RuleSpecification specification = initialised(rig, random);
        REQUIRE(rig.completed == rig.shard->chunks());
        std::uint64_t skipped = 0;
        float scale = 8.0F;
        for (std::uint32_t round = 1; round < 12; ++round) {
          const std::uint32_t overflows = round % 4 == 0 ? 1U << (round % workers) : 0;
          voted_round(rig, random, round, scale, overflows);
          if (overflows == 0) specification.round(rig.layout.hyper, scale, noise(round, scale));
          if (overflows != 0) ++skipped;
          REQUIRE(rig.completed == rig.shard->chunks());
          REQUIRE(rig.agrees(specification));
          REQUIRE(rig.shard->chunk(0).skipped == (overflows != 0));
          REQUIRE(rig.shard->chunk(rig.shard->chunks() - 1).skipped == (overflows != 0));
          REQUIRE(rig.staging->in_use() == 0);
          scale = overflows != 0 ? scale / 2 : scale * 2;
        }
        CHECK(rig.shard->updates.skipped.rounds.value() == skipped);
        CHECK(rig.shard->updates.skipped.updates.value() == 0);
        CHECK(rig.shard->updates.copying.rounds_max() == 12);
      }
    }
  }
}

TEST_CASE("a voted job with scale 1 has the bits of the same job without votes") {
  std::mt19937 random(42);
  for (const RuleKind rule : {RuleKind::kMomentum, RuleKind::kNesterov, RuleKind::kLars}) {
    ShardRig plain(deferred_layout(rule, 3, DataType::kFloat16));
    ShardRig voted(voted_layout(rule, 3, DataType::kFloat16));
    plain.push_all(random, noise(0));
    voted.push_all(random, noise(0));
    for (std::uint32_t round = 1; round < 4; ++round) {
      plain.push_all(random, noise(round));
      plain.update_all_due();
      voted_round(voted, random, round, 1.0F, 0);
      for (std::uint32_t slot = 0; slot < plain.shard->chunks(); ++slot) {
        REQUIRE(plain.reply(slot) == voted.reply(slot));
      }
    }
  }
}

TEST_CASE("nothing is updated before the last vote, and the next round waits for its own votes") {
  ShardRig rig(voted_layout(RuleKind::kSgd, 2, DataType::kFloat32));
  std::mt19937 random(5);
  rig.push_all(random, noise(0));
  rig.completed = 0;
  rig.push_all(random, noise(1));
  CHECK(rig.completed == 0);
  CHECK(rig.shard->vote(1, {}) == VoteOutcome::kAccepted);
  CHECK_FALSE(rig.shard->updates.has_due());
  CHECK(rig.shard->vote(0, {}) == VoteOutcome::kUpdatesDue);
  rig.update_due(1);
  // Slot 0 is replied to: its next round must not be taken for this one.
  CHECK(rig.push(0, 0, true, noise(2)) == PushResult::kAccepted);
  CHECK(rig.push(1, 0, true, noise(2)) == PushResult::kDeferred);
  rig.update_all_due();
  CHECK(rig.completed == rig.shard->chunks());
  CHECK_FALSE(rig.shard->updates.has_due());
  CHECK(rig.staging->in_use() == 1);
}

TEST_CASE("what is not finite though all votes say so is left out alone, and counted apart") {
  ShardRig rig(voted_layout(RuleKind::kMomentum, 2, DataType::kFloat32));
  std::mt19937 random(8);
  RuleSpecification specification = initialised(rig, random);
  const auto broken = [](std::uint32_t worker, std::uint32_t key, std::uint64_t i) {
    // Each is finite, their sum is not.
    return key == 1 && i == 4999 ? 3e38F : noise(1)(worker, key, i);
  };
  rig.push_all(random, broken);
  for (const std::uint32_t worker : {0U, 1U}) rig.shard->vote(worker, {});
  rig.update_all_due();
  CHECK(specification.round(rig.layout.hyper, 1.0F, broken) == 1);
  CHECK(rig.agrees(specification));
  CHECK(rig.shard->updates.skipped.updates.value() == 1);
  CHECK(rig.shard->updates.skipped.rounds.value() == 0);
}

TEST_CASE("a worker that pushes twice and takes every buffer ends its job, not the server") {
  ShardRig rig(voted_layout(RuleKind::kSgd, 1, DataType::kFloat16));
  std::mt19937 random(6);
  rig.push_all(random, noise(0));
  for (std::uint32_t slot = 1; slot < rig.shard->chunks(); ++slot) {
    CHECK(rig.push(0, slot, true, noise(1)) == PushResult::kDeferred);
  }
  // What it sends twice is in buffers before the first of it is looked at.
  std::vector<std::byte*> twice;
  while (std::byte* const buffer = rig.staging->take_for_push()) twice.push_back(buffer);
  CHECK(twice.size() < 4);
  rig.staging->give(twice.back());
  twice.pop_back();
  CHECK(rig.push(0, 0, true, noise(1)) == PushResult::kDeferred);
  // Even with the reserve gone nothing is written to where there is no buffer.
  ShardRig other(voted_layout(RuleKind::kSgd, 1, DataType::kFloat16));
  other.push_all(random, noise(0));
  while (std::byte* const buffer = other.staging->take()) twice.push_back(buffer);
  CHECK(other.push(0, 0, false, noise(1)) == PushResult::kDuplicate);
}

TEST_CASE("votes that make no sense are told apart, and change nothing") {
  ShardRig rig(voted_layout(RuleKind::kSgd, 2, DataType::kFloat32));
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const float scale : {0.0F, -1.0F, kInfinity, std::nanf("")}) {
    CHECK(rig.shard->vote(0, {.loss_scale = scale}) == VoteOutcome::kMalformed);
  }
  CHECK(rig.shard->vote(0, {.overflow = 2}) == VoteOutcome::kMalformed);
  CHECK(rig.shard->vote(0, {.loss_scale = 4.0F}) == VoteOutcome::kAccepted);
  CHECK(rig.shard->vote(0, {.loss_scale = 4.0F}) == VoteOutcome::kDuplicate);
  CHECK(rig.shard->vote(1, {.loss_scale = 2.0F}) == VoteOutcome::kOtherScale);
  CHECK(rig.shard->vote(1, {.loss_scale = 4.0F}) == VoteOutcome::kAccepted);
  CHECK(rig.shard->vote(1, {.loss_scale = 4.0F}) == VoteOutcome::kDuplicate);
  rig.shard->stop();
  CHECK(rig.shard->vote(0, {}) == VoteOutcome::kStopped);
  ShardRig plain(deferred_layout(RuleKind::kSgd, 2, DataType::kFloat32));
  CHECK(plain.shard->vote(0, {}) == VoteOutcome::kUnasked);
}

TEST_CASE("a shard that stops with sums that wait has no updates due") {
  ShardRig rig(voted_layout(RuleKind::kSgd, 1, DataType::kFloat32));
  std::mt19937 random(6);
  rig.push_all(random, noise(0));
  rig.push_all(random, noise(1));
  REQUIRE(rig.shard->vote(0, {}) == VoteOutcome::kUpdatesDue);
  rig.shard->stop();
  CHECK_FALSE(rig.shard->updates.has_due());
}

TEST_CASE("a static scale of a power of two changes no bit over fp32") {
  std::mt19937 random(43);
  for (const RuleKind rule : {RuleKind::kSgd, RuleKind::kNesterov, RuleKind::kLars}) {
    ShardRig plain(deferred_layout(rule, 3, DataType::kFloat32));
    JobLayout layout = deferred_layout(rule, 3, DataType::kFloat32);
    layout.loss_scale = {LossScaling::kStatic, 1024.0F};
    ShardRig scaled(layout);
    plain.push_all(random, noise(0));
    scaled.push_all(random, noise(0));
    for (std::uint32_t round = 1; round < 4; ++round) {
      plain.push_all(random, noise(round));
      scaled.push_all(random, noise(round, 1024.0F));
      plain.update_all_due();
      scaled.update_all_due();
      for (std::uint32_t slot = 0; slot < plain.shard->chunks(); ++slot) {
        REQUIRE(plain.reply(slot) == scaled.reply(slot));
      }
    }
  }
}

TEST_CASE(
    "with a static scale a sum that is not finite leaves its chunk as it was, and is counted") {
  for (const bool staged : {false, true}) {
    JobLayout layout = deferred_layout(RuleKind::kMomentum, 2, DataType::kFloat16);
    layout.loss_scale = {LossScaling::kStatic, 128.0F};
    ShardRig rig(layout);
    std::mt19937 random(7);
    RuleSpecification specification = initialised(rig, random);
    const auto broken = [](std::uint32_t worker, std::uint32_t key, std::uint64_t i) {
      // Too large for fp16: it travels as infinity.
      return worker == 0 && key == 3 && i == 7 ? 1e6F : noise(1, 128.0F)(worker, key, i);
    };
    for (std::uint32_t slot = 0; slot < rig.shard->chunks(); ++slot) {
      CHECK(rig.push(1, slot, staged, broken) == PushResult::kAccepted);
      CHECK(rig.push(0, slot, staged, broken) == PushResult::kCompleted);
    }
    CHECK(specification.round(rig.layout.hyper, 128.0F, broken) == 1);
    CHECK(rig.agrees(specification));
    CHECK(rig.shard->updates.skipped.updates.value() == 1);
    CHECK(rig.staging->in_use() == 0);
  }
}

}  // namespace
}  // namespace phub::testing
