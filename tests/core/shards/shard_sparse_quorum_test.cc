// Sparse pushes in rounds with a quorum: what dense ones with zeros would make, late or not, with
// each weight; and what is wrong with one is in no round.
#include <algorithm>
#include <catch2/catch.hpp>

#include "tests/support/server/sparse_rig.h"

namespace phub::testing {
namespace {

using server::PushResult;

constexpr std::uint32_t kSparseWorkers = 4;

server::JobLayout with_quorum(server::JobLayout layout, const RoundPolicy& policy) {
  layout.deterministic = false;
  layout.rounds = policy;
  layout.hyper.gradient_scale = 1.0F / static_cast<float>(kSparseWorkers);
  return layout;
}

// Two jobs that are pushed the same, one of them sparse.
struct Pair {
  SparseRig sparse;
  ShardRig dense;
  std::vector<bool> waits;  // by chunk and worker: it has no reply yet

  Pair(RuleKind rule, DataType type, const RoundPolicy& policy)
      : sparse(with_quorum(sparse_layout(rule, kSparseWorkers, type), policy)),
        dense(with_quorum(deferred_layout(rule, kSparseWorkers, type), policy)),
        waits(sparse.shard->chunks() * kSparseWorkers) {}

  void initialise() {
    if (!has_parameters(sparse.layout.rule)) return;
    for (std::uint32_t slot = 0; slot < sparse.shard->chunks(); ++slot) {
      for (std::uint32_t worker = 0; worker < kSparseWorkers; ++worker) {
        sparse.push(worker, slot, worker % 2 == 0, noise(1));
        dense.push(worker, slot, worker % 2 == 0, noise(1));
      }
    }
  }

  // Some elements, or now and then all of them.
  PushResult push(std::uint32_t worker, std::uint32_t slot, std::mt19937& random) {
    const std::uint32_t every = random() % 5 == 0 ? 1 : 7;
    const auto seed = static_cast<std::uint32_t>(random());
    const auto value = [=](std::uint32_t w, std::uint32_t key, std::uint64_t i) {
      return i % every == seed % every ? noise(seed)(w, key, i) : 0.0F;
    };
    const PushResult result = sparse.push_some(worker, slot, random, value);
    REQUIRE(dense.push(worker, slot, random() % 2 == 0, value) == result);
    return result;
  }

  void release(std::uint32_t slot) {
    const auto released = sparse.shard->members.rounds()->released();
    const auto wanted = dense.shard->members.rounds()->released();
    REQUIRE(std::equal(released.begin(), released.end(), wanted.begin(), wanted.end()));
    for (const std::uint32_t worker : released) waits[slot * kSparseWorkers + worker] = false;
  }
};

TEST_CASE("a quorum's rounds of sparse pushes have the bits of dense ones, also late and weighed") {
  const RoundPolicy added{.quorum = 3, .late = LatePushes::kAdd, .weight = PushWeight::kStaleness};
  const RoundPolicy dropped{.quorum = 3};
  for (const RoundPolicy& policy : {added, dropped}) {
    for (const RuleKind rule : {RuleKind::kMomentum, RuleKind::kMean}) {
      for (const DataType type : {DataType::kFloat32, DataType::kBfloat16}) {
        Pair jobs(rule, type, policy);
        jobs.initialise();
        const std::size_t buffers = jobs.sparse.staging->free();
        std::mt19937 random(5);
        std::size_t dropped_pushes = 0;
        for (int i = 0; i < 3000; ++i) {
          const auto slot = static_cast<std::uint32_t>(random() % jobs.sparse.shard->chunks());
          const auto worker = static_cast<std::uint32_t>(random() % kSparseWorkers);
          if (jobs.waits[slot * kSparseWorkers + worker]) continue;
          jobs.waits[slot * kSparseWorkers + worker] = true;
          if (jobs.push(worker, slot, random) == PushResult::kDropped) ++dropped_pushes;
          jobs.release(slot);
          REQUIRE(jobs.sparse.reply(slot) == jobs.dense.reply(slot));
          REQUIRE(jobs.sparse.staging->free() == jobs.dense.staging->free());
        }
        CHECK(jobs.sparse.shard->members.rounds()->counters.rounds.value() > 300);
        CHECK((dropped_pushes > 50) == (policy.late == LatePushes::kDrop));
        CHECK(buffers - jobs.sparse.staging->free() <= jobs.sparse.shard->chunks());
      }
    }
  }
}

TEST_CASE("what is wrong with a sparse push is in no round of a quorum, and keeps no buffer") {
  for (const bool staged : {true, false}) {
    SparseRig rig(with_quorum(sparse_layout(RuleKind::kSum, kSparseWorkers, DataType::kFloat32),
                              {.quorum = 2, .late = LatePushes::kAdd}));
    const std::size_t buffers = rig.staging->free();
    const std::uint32_t outside = rig.elements(1);
    CHECK(rig.push_sparse(0, 1, staged, {{outside}, {1.0F}}) == PushResult::kBadIndex);
    CHECK(rig.staging->free() == buffers);
    CHECK(rig.shard->members.rounds()->late()[0].pushes[0].value() == 0);
    REQUIRE(rig.push_sparse(1, 1, staged, {{0}, {2.0F}}) == PushResult::kTaken);
    REQUIRE(rig.push_sparse(2, 1, staged, {{0}, {3.0F}}) == PushResult::kCompleted);
    CHECK(rig.reply(1)[0] == 5.0F);
  }
}

TEST_CASE("a push that is refused changes no hyper-parameters, with a quorum and without") {
  for (const bool has_quorum : {true, false}) {
    server::JobLayout layout = sparse_layout(RuleKind::kSgd, kSparseWorkers, DataType::kFloat32);
    layout.hyper = {.learning_rate = 1.0F, .gradient_scale = 1.0F};
    if (has_quorum) layout = with_quorum(layout, {.quorum = 1, .late = LatePushes::kAdd});
    SparseRig rig(layout);
    for (std::uint32_t worker = 0; worker < kSparseWorkers; ++worker) {
      rig.push(worker, 1, true, [](auto, auto, auto) { return 0.0F; });
    }
    rig.layout.hyper.learning_rate = 0.5F;
    REQUIRE(rig.push_sparse(0, 1, true, {{rig.elements(1)}, {1.0F}}) == PushResult::kBadIndex);
    CHECK(rig.shard->chunk(1).hyper.learning_rate == 1.0F);
    if (!has_quorum) continue;
    rig.layout.hyper.learning_rate = 1.0F;
    REQUIRE(rig.push_sparse(1, 1, true, {{0}, {2.0F}}) == PushResult::kCompleted);
    CHECK(rig.shard->chunk(1).hyper.learning_rate == 1.0F);
  }
}

}  // namespace
}  // namespace phub::testing
