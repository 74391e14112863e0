// Values that are not finite, on a shard: every push with one is somebody's, and nobody else's.
#include <catch2/catch.hpp>
#include <cmath>
#include <functional>
#include <limits>
#include <map>

#include "tests/support/server/watch_rig.h"

namespace phub::testing {
namespace {

using server::PushResult;

TEST_CASE("a thousand values that are not finite are named, each with worker, key and round") {
  std::size_t injected = 0;
  std::uint32_t seed = 100;
  for (const RuleKind rule : {RuleKind::kMean, RuleKind::kNesterov, RuleKind::kAdam}) {
    for (const DataType type : {DataType::kFloat32, DataType::kFloat16, DataType::kBfloat16}) {
      for (const bool in_order : {true, false}) {
        for (const std::uint32_t workers : {1U, 3U, 8U}) {
          CAPTURE(name_of(rule), name_of(type), in_order, workers, seed);
          JobLayout layout = watched_layout(rule, workers, type);
          layout.deterministic = in_order;
          WatchRig rig(layout, ++seed);
          // Rule mean keeps nothing; of the others each round with a bad one is a job's last.
          const std::uint32_t rounds = rule == RuleKind::kMean ? 45 : 8;
          for (std::uint32_t round = 1; round <= rounds; ++round) {
            CAPTURE(round);
            const auto bad = rig.some(round % 3);
            injected += bad.size();
            REQUIRE(rig.round(round, bad));
            REQUIRE(rig.has_the_bits_of_plain());
          }
        }
      }
    }
  }
  CHECK(injected >= 1000);
}

TEST_CASE("with more workers than the kernels take sources each is named too") {
  for (const bool in_order : {true, false}) {
    JobLayout layout = watched_layout(RuleKind::kSgd, 70, DataType::kFloat32);
    layout.deterministic = in_order;
    WatchRig rig(layout, 7);
    for (std::uint32_t round = 1; round <= 6; ++round) {
      CAPTURE(in_order, round);
      REQUIRE(rig.round(round, rig.some(4)));
      REQUIRE(rig.has_the_bits_of_plain());
    }
  }
}

TEST_CASE("where updates are left out culprits are named, and the rounds go on") {
  for (const RuleKind rule : {RuleKind::kMomentum, RuleKind::kLars}) {
    for (const DataType type : {DataType::kFloat32, DataType::kFloat16}) {
      CAPTURE(name_of(rule), name_of(type));
      JobLayout layout = watched_layout(rule, 3, type);
      layout.loss_scale = {LossScaling::kStatic, 4.0F};
      WatchRig rig(layout, 11);
      for (std::uint32_t round = 1; round <= 20; ++round) {
        CAPTURE(round);
        REQUIRE(rig.round(round, rig.some(round % 3)));
        REQUIRE(rig.has_the_bits_of_plain());
      }
    }
  }
}

TEST_CASE("a sum that overflows is nobody's, nor are parameters that are not finite") {
  for (const bool staged : {true, false}) {
    ShardRig rig(watched_layout(RuleKind::kSgd, 2, DataType::kFloat32));
    const auto largest = [](auto...) { return std::numeric_limits<float>::max(); };
    for (std::uint32_t round = 0; round < 3; ++round) {
      for (std::uint32_t w = 0; w < 2; ++w) {
        for (std::uint32_t slot = 0; slot < rig.shard->chunks(); ++slot) {
          rig.push(w, slot, staged, largest);
        }
      }
    }
    CHECK_FALSE(std::isfinite(rig.reply(0)[0]));
    CHECK(rig.shard->reader.watch()->findings.value() == 0);
  }
}

TEST_CASE("an initial value that is not finite is the leader's, of round 0") {
  ShardRig rig(watched_layout(RuleKind::kSgd, 2, DataType::kFloat32));
  const auto initial = [](std::uint32_t, std::uint32_t key, std::uint64_t i) {
    return key == 1 && i == 4000 ? kNotNumbers[0] : 1.0F;
  };
  for (std::uint32_t w = 0; w < 2; ++w) {
    for (std::uint32_t slot = 0; slot < rig.shard->chunks(); ++slot) {
      rig.push(w, slot, w == 0, initial);
    }
  }
  const auto& workers = rig.shard->reader.watch()->workers();
  CHECK(workers[0].pushes == 1);
  CHECK(workers[0].first.round == 0);
  CHECK(workers[0].first.key == 1);
  CHECK(workers[0].first.element == 4000);
  CHECK(workers[1].pushes == 0);
}

TEST_CASE("a job that fails with the first one completes nothing with it, and nothing after it") {
  for (const bool staged : {true, false}) {
    for (const bool is_deferred : {false, true}) {
      CAPTURE(staged, is_deferred);
      JobLayout layout = watched_layout(RuleKind::kMean, 2, DataType::kFloat32, WatchValues::kFail);
      if (is_deferred) {
        layout.rule = RuleKind::kSgd;
        layout.loss_scale = {LossScaling::kStatic, 2.0F};
      }
      ShardRig rig(layout);
      std::mt19937 random(3);
      if (is_deferred) rig.push_all(random, noise(0));
      rig.push_all(random, noise(1));
      rig.completed = 0;
      const auto bad = [](std::uint32_t worker, std::uint32_t, std::uint64_t i) {
        return worker == 1 && i == 0 ? kNotNumbers[1] : 1.0F;
      };
      CHECK(rig.push(0, 0, staged, bad) == PushResult::kAccepted);
      CHECK(rig.push(1, 0, staged, bad) == PushResult::kForbidden);
      CHECK(rig.shard->stopped());
      CHECK(rig.shard->reader.watch()->workers()[1].pushes == 1);
      CHECK(rig.shard->reader.watch()->workers()[0].pushes == 0);
      CHECK(rig.push(0, 1, staged, bad) == PushResult::kStopped);
    }
  }
}

TEST_CASE("no copy of a job has the values for which it ends") {
  for (const bool staged : {true, false}) {
    ShardRig rig(watched_layout(RuleKind::kMomentum, 2, DataType::kFloat32, WatchValues::kFail));
    std::mt19937 random(3);
    rig.push_all(random, noise(0));
    const auto bad = [](std::uint32_t worker, std::uint32_t, std::uint64_t i) {
      return worker == 1 && i == 0 ? kNotNumbers[1] : 1.0F;
    };
    const auto copy = std::move(*server::JobCopy::create(*rig.layout.plan, 0, 1));
    copy->round = 1;
    rig.push(0, 0, staged, bad);
    CHECK(rig.shard->rounds_to_copy(1) == 1);
    rig.push(1, 0, staged, bad);
    REQUIRE(rig.shard->stopped());
    CHECK(rig.shard->rounds_to_copy(1) == 2);
    CHECK_FALSE(rig.shard->updates.copying.begin(copy));
  }
}

TEST_CASE("staged pushes are told apart whatever their sums hide") {
  for (const bool is_in_order : {true, false}) {
    for (const DataType type : {DataType::kFloat32, DataType::kFloat16}) {
      JobLayout layout = watched_layout(RuleKind::kMean, 4, type);
      layout.deterministic = is_in_order;
      ShardRig rig(layout);
      // All at one element: an infinity, its opposite, a number, and one more; their sum is a NaN
      // from the second one on.
      const float values[] = {kNotNumbers[1], kNotNumbers[2], 1.0F, kNotNumbers[1]};
      const auto bad = [&](std::uint32_t worker, std::uint32_t, std::uint64_t i) {
        return i == 1 ? values[worker] : 1.0F;
      };
      for (const std::uint32_t worker : {2U, 0U, 3U, 1U}) rig.push(worker, 0, true, bad);
      const auto& workers = rig.shard->reader.watch()->workers();
      for (std::uint32_t worker = 0; worker < 4; ++worker) {
        INFO("worker " << worker << " in order " << is_in_order);
        CHECK(workers[worker].pushes == (worker == 2 ? 0 : 1));
        if (worker != 2) CHECK(workers[worker].first.value == values[worker]);
      }
    }
  }
}

TEST_CASE("numbers whose sum is none are nobody's, staged or not") {
  for (const bool staged : {true, false}) {
    ShardRig rig(watched_layout(RuleKind::kMean, 3, DataType::kFloat32));
    const auto large = [](auto...) { return std::numeric_limits<float>::max(); };
    for (std::uint32_t worker = 0; worker < 3; ++worker) rig.push(worker, 0, staged, large);
    CHECK(rig.shard->reader.watch()->findings.value() == 0);
  }
}

TEST_CASE("votes that say overflow are counted of each worker") {
  JobLayout layout = watched_layout(RuleKind::kSgd, 2, DataType::kFloat16);
  layout.loss_scale.kind = LossScaling::kVoted;
  ShardRig rig(layout);
  std::mt19937 random(4);
  rig.push_all(random, noise(0));
  for (std::uint32_t round = 1; round <= 4; ++round) {
    rig.push_all(random, noise(round));
    rig.shard->vote(0, {.loss_scale = 8.0F, .overflow = 0});
    rig.shard->vote(1, {.loss_scale = 8.0F, .overflow = round % 2});
    rig.update_all_due();
  }
  CHECK(rig.shard->reader.watch()->workers()[0].overflow_votes == 0);
  CHECK(rig.shard->reader.watch()->workers()[1].overflow_votes == 2);
  CHECK(rig.shard->reader.watch()->workers()[1].pushes == 0);
}

TEST_CASE("a vote that is refused is not counted") {
  JobLayout layout = watched_layout(RuleKind::kSgd, 2, DataType::kFloat16);
  layout.loss_scale.kind = LossScaling::kVoted;
  ShardRig rig(layout);
  std::mt19937 random(4);
  rig.push_all(random, noise(0));
  using server::VoteOutcome;
  CHECK(rig.shard->vote(1, {.loss_scale = 8.0F, .overflow = 1}) == VoteOutcome::kAccepted);
  CHECK(rig.shard->vote(1, {.loss_scale = 8.0F, .overflow = 1}) == VoteOutcome::kDuplicate);
  CHECK(rig.shard->vote(0, {.loss_scale = 4.0F, .overflow = 1}) == VoteOutcome::kOtherScale);
  CHECK(rig.shard->vote(0, {.loss_scale = 0.0F, .overflow = 1}) == VoteOutcome::kMalformed);
  CHECK(rig.shard->reader.watch()->workers()[0].overflow_votes == 0);
  CHECK(rig.shard->reader.watch()->workers()[1].overflow_votes == 1);
}

TEST_CASE("a push that is refused is not looked at: it is not one of the worker's") {
  ShardRig rig(watched_layout(RuleKind::kMean, 2, DataType::kFloat32, WatchValues::kFail));
  const auto bad = [](auto...) { return kNotNumbers[0]; };
  const auto good = [](auto...) { return 1.0F; };
  for (const bool staged : {true, false}) {
    const std::uint32_t slot = staged ? 0 : 1;
    CHECK(rig.push(1, slot, staged, good) == PushResult::kAccepted);
    CHECK(rig.push(1, slot, true, bad) == PushResult::kDuplicate);
  }
  CHECK(rig.shard->reader.watch()->findings.value() == 0);
  CHECK_FALSE(rig.shard->stopped());
}

TEST_CASE("an initial value that is not finite ends a job that is to fail, before a reply has it") {
  for (const bool staged : {true, false}) {
    ShardRig rig(watched_layout(RuleKind::kSgd, 2, DataType::kFloat32, WatchValues::kFail));
    const auto bad = [](std::uint32_t worker, std::uint32_t, std::uint64_t) {
      return worker == 0 ? kNotNumbers[1] : 1.0F;
    };
    CHECK(rig.push(1, 0, staged, bad) == PushResult::kAccepted);
    CHECK(rig.push(0, 0, staged, bad) == PushResult::kForbidden);
    CHECK(rig.shard->stopped());
    CHECK(rig.shard->updates.chunks_completed.value() == 0);
    CHECK(rig.shard->reader.watch()->workers()[0].first.round == 0);
    CHECK(rig.staging->in_use() == 0);
  }
}

TEST_CASE("of a sparse push the element is named that the value is of") {
  for (const bool staged : {true, false}) {
    JobLayout layout = sparse_layout(RuleKind::kMean, 2, DataType::kFloat16);
    layout.watch_values = WatchValues::kName;
    SparseRig rig(layout);
    rig.push_sparse(0, 1, staged, {{5, 9}, {1.0F, 2.0F}});
    rig.push_sparse(1, 1, staged, {{3, 9, 20}, {1.0F, kNotNumbers[2], kNotNumbers[0]}});
    const Plan& plan = *layout.plan;
    const Chunk& chunk = plan.chunks[plan.core_chunks[0][0][1]];
    const Segment& segment = plan.segments[chunk.first_segment];
    const WorkerValues& found = rig.shard->reader.watch()->workers()[1];
    CHECK(found.pushes == 1);
    CHECK(found.first.key == segment.key);
    CHECK(found.first.element == segment.key_offset + 9);
    CHECK(found.first.value == kNotNumbers[2]);
    CHECK(rig.shard->reader.watch()->workers()[0].pushes == 0);
  }
}

TEST_CASE("with a quorum each push is looked at, whichever round it is one of") {
  JobLayout layout = watched_layout(RuleKind::kSgd, 3, DataType::kFloat32);
  layout.deterministic = false;
  layout.rounds = {.quorum = 1, .late = LatePushes::kAdd};
  ShardRig rig(layout);
  std::mt19937 random(5);
  rig.push_all(random, noise(0));
  const auto bad = [](std::uint32_t worker, std::uint32_t, std::uint64_t i) {
    return worker == 2 && i == 1 ? kNotNumbers[0] : 1.0F;
  };
  for (const bool staged : {true, false}) {
    rig.push(0, 0, staged, bad);
    rig.push(2, 0, staged, bad);
  }
  CHECK(rig.shard->reader.watch()->workers()[0].pushes == 0);
  CHECK(rig.shard->reader.watch()->workers()[2].pushes == 2);
}

TEST_CASE("a push that waits for its quorum is looked at once") {
  JobLayout layout = watched_layout(RuleKind::kSgd, 3, DataType::kFloat32);
  layout.deterministic = false;
  layout.rounds = {.quorum = 2};
  for (const bool staged : {true, false}) {
    ShardRig rig(layout);
    std::mt19937 random(5);
    rig.push_all(random, noise(0));
    const auto bad = [](std::uint32_t worker, std::uint32_t, std::uint64_t i) {
      return worker == 2 && i == 1 ? kNotNumbers[0] : 1.0F;
    };
    CHECK(rig.push(2, 0, staged, bad) == PushResult::kOpened);
    CHECK(rig.push(0, 0, staged, bad) == PushResult::kCompleted);
    CHECK(rig.shard->reader.watch()->workers()[2].pushes == 1);
    CHECK(rig.shard->reader.watch()->workers()[0].pushes == 0);
  }
}

}  // namespace
}  // namespace phub::testing
