// Aggregation without a network: what arrives in which order, and what comes out.
#include "server/chunks/shard.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <numeric>
#include <random>

#include "server/job/footprint.h"

namespace phub::server {
namespace {

struct Rig {
  JobLayout layout;
  std::unique_ptr<BufferPool> staging;
  std::unique_ptr<Shard> shard;

  Rig(RuleKind rule, std::uint32_t workers, DataType type, bool deterministic) {
    PlanInput input;
    input.key_elements = {3, 5000, 17};
    input.wire_type = type;
    input.chunk_bytes = 4096;
    input.cores_per_server = {1};
    layout.workers = workers;
    layout.wire_type = type;
    layout.rule = rule;
    layout.hyper = {.learning_rate = 0.5F, .momentum = 0.9F, .gradient_scale = 0.25F};
    layout.deterministic = deterministic;
    layout.weight_decay = {0.1F, 0.0F, 0.1F};
    layout.plan = std::make_shared<const Plan>(std::move(*make_plan(input)));
    make_shard();
  }
  void make_shard() {
    staging =
        std::move(*BufferPool::create(staging_buffers(layout, 0), staging_buffer_bytes(layout)));
    shard = std::make_unique<Shard>(layout, 0, std::move(*JobMemory::create(layout)), *staging);
  }

  // Pushes one slot for one worker with values from `value`; staged as tcp does, or in place.
  template <typename Value>
  PushResult push(std::uint32_t worker, std::uint32_t slot, bool staged, Value value,
                  std::vector<std::vector<float>>& keep) {
    const std::uint32_t bytes = shard->push_bytes(slot);
    std::vector<float> data(bytes / sizeof(float));
    for (std::size_t i = 0; i < data.size(); ++i) data[i] = value(i);
    auto* place = reinterpret_cast<std::byte*>(data.data());
    if (staged) {
      place = staging->take();
      REQUIRE(place != nullptr);
      std::memcpy(place, data.data(), bytes);
    } else {
      keep.push_back(std::move(data));
      place = reinterpret_cast<std::byte*>(keep.back().data());
    }
    return shard->on_push({.worker = worker,
                           .slot = slot,
                           .data = place,
                           .bytes = bytes,
                           .staged = staged,
                           .hyper = &layout.hyper});
  }
  std::vector<float> result(std::uint32_t slot) const {
    const auto bytes = shard->updates.replies.whole(slot);
    std::vector<float> values(bytes.size() / sizeof(float));
    std::memcpy(values.data(), bytes.data(), bytes.size());
    return values;
  }
};

float gradient(std::uint32_t worker, std::size_t i) {
  return std::ldexp(1.0F + static_cast<float>(i % 97) / 97.0F, static_cast<int>(worker * 5)) / 3;
}

}  // namespace

TEST_CASE("the deterministic sum has the same bits in every order of arrival, staged or in place") {
  constexpr std::uint32_t kWorkers = 4;
  std::vector<std::uint32_t> order(kWorkers);
  std::iota(order.begin(), order.end(), 0U);
  std::vector<float> expected;
  do {
    for (unsigned staged = 0; staged < (1U << kWorkers); ++staged) {
      Rig rig(RuleKind::kSum, kWorkers, DataType::kFloat32, true);
      std::vector<std::vector<float>> keep;
      keep.reserve(kWorkers);
      for (std::uint32_t i = 0; i < kWorkers; ++i) {
        const std::uint32_t worker = order[i];
        const PushResult outcome = rig.push(
            worker, 1, ((staged >> worker) & 1U) != 0,
            [&](std::size_t e) { return gradient(worker, e); }, keep);
        REQUIRE(outcome == (i + 1 == kWorkers ? PushResult::kCompleted : PushResult::kAccepted));
      }
      if (expected.empty()) expected = rig.result(1);
      REQUIRE(rig.result(1) == expected);
      REQUIRE(rig.staging->in_use() == 0);
    }
  } while (std::next_permutation(order.begin(), order.end()));
  for (std::size_t i = 0; i < expected.size(); ++i) {
    float sum = gradient(0, i);
    for (std::uint32_t worker = 1; worker < kWorkers; ++worker) sum += gradient(worker, i);
    REQUIRE(expected[i] == sum);
  }
}

TEST_CASE("the first round of a rule with parameters hands out worker 0's, the next ones update") {
  for (const bool staged : {false, true}) {
    Rig rig(RuleKind::kMomentum, 2, DataType::kFloat32, true);
    std::vector<std::vector<float>> keep;
    keep.reserve(8);
    REQUIRE(rig.push(
                1, 0, staged, [](std::size_t) { return 99.0F; }, keep) == PushResult::kAccepted);
    REQUIRE(rig.push(
                0, 0, staged, [](std::size_t) { return 2.0F; }, keep) == PushResult::kCompleted);
    for (const float value : rig.result(0)) CHECK(value == 2.0F);
    REQUIRE(rig.push(
                0, 0, staged, [](std::size_t) { return 1.0F; }, keep) == PushResult::kAccepted);
    REQUIRE(rig.push(
                1, 0, staged, [](std::size_t) { return 3.0F; }, keep) == PushResult::kCompleted);
    // slot 0 holds key 0 (decay 0.1): g = 4 * 0.25 = 1, v = 1 + 0.1 * 2, w = 2 - 0.5 * v
    for (const float value : rig.result(0)) CHECK(value == Approx(1.4F));
    CHECK(rig.staging->in_use() == 0);
  }
}

TEST_CASE("bad pushes are refused and their buffers given back") {
  Rig rig(RuleKind::kSum, 2, DataType::kFloat32, false);
  std::vector<std::vector<float>> keep;
  const auto zero = [](std::size_t) { return 0.0F; };
  REQUIRE(rig.push(0, 0, true, zero, keep) == PushResult::kAccepted);
  CHECK(rig.push(0, 0, true, zero, keep) == PushResult::kDuplicate);
  CHECK(rig.staging->in_use() == 1);
  const auto refused = [&](std::uint32_t slot, std::uint32_t bytes) {
    return rig.shard->on_push({.worker = 1,
                               .slot = slot,
                               .data = rig.staging->take(),
                               .bytes = bytes,
                               .staged = true,
                               .hyper = &rig.layout.hyper});
  };
  CHECK(refused(rig.shard->chunks(), 4096) == PushResult::kUnknownChunk);
  CHECK(refused(0, rig.shard->push_bytes(0) - 1) == PushResult::kBadLength);
  CHECK(rig.staging->in_use() == 1);
  rig.shard->stop();
  CHECK(rig.push(1, 0, true, zero, keep) == PushResult::kStopped);
  CHECK(rig.staging->in_use() == 1);
}

TEST_CASE("random rounds never run out of staging and sum exactly") {
  std::mt19937 random(7);
  for (const bool deterministic : {false, true}) {
    constexpr std::uint32_t kWorkers = 5;
    Rig rig(RuleKind::kSum, kWorkers, DataType::kFloat32, deterministic);
    const std::uint32_t chunks = rig.shard->chunks();
    for (unsigned round = 0; round < 20; ++round) {
      std::vector<std::pair<std::uint32_t, std::uint32_t>> pushes;
      for (std::uint32_t w = 0; w < kWorkers; ++w) {
        for (std::uint32_t c = 0; c < chunks; ++c) pushes.emplace_back(w, c);
      }
      std::shuffle(pushes.begin(), pushes.end(), random);
      std::vector<std::vector<float>> keep;
      keep.reserve(pushes.size());
      for (const auto& [worker, slot] : pushes) {
        const auto value = static_cast<float>(worker + round + slot);
        rig.push(
            worker, slot, random() % 2 == 0, [&](std::size_t) { return value; }, keep);
      }
      for (std::uint32_t slot = 0; slot < chunks; ++slot) {
        const auto sum = static_cast<float>(kWorkers * (round + slot) + 10);
        for (const float value : rig.result(slot)) REQUIRE(value == sum);
      }
      REQUIRE(rig.staging->in_use() == 0);
    }
  }
}

// One worker that pushes all chunks of a round, a few of them before the copy is asked for.
TEST_CASE("a copy has every chunk as it was at the same round, however far the job has gone") {
  Rig rig(RuleKind::kMomentum, 1, DataType::kFloat32, true);
  std::vector<std::vector<float>> keep;
  const auto push = [&](std::uint32_t slot, float value) {
    return rig.push(
        0, slot, false, [value](std::size_t) { return value; }, keep);
  };
  const std::uint32_t chunks = rig.shard->chunks();
  REQUIRE(chunks > 3);
  for (std::uint32_t slot = 0; slot < chunks; ++slot) push(slot, 1.0F);  // initial values
  for (std::uint32_t slot = 0; slot < chunks; ++slot) push(slot, 0.5F);
  std::vector<std::vector<float>> expected;
  for (std::uint32_t slot = 0; slot < chunks; ++slot) expected.push_back(rig.result(slot));
  push(0, 3.0F);  // chunk 0 has left round 2 behind

  const auto copy_at = [&](std::uint64_t round) {
    auto copy = std::move(*JobCopy::create(*rig.layout.plan, 0, 1));
    copy->round = round;
    return copy;
  };
  CHECK(rig.shard->updates.copying.rounds_max() == 3);
  CHECK_FALSE(rig.shard->updates.copying.begin(copy_at(2)));
  const auto copy = copy_at(3);
  REQUIRE(rig.shard->updates.copying.begin(copy));
  CHECK(rig.shard->updates.copying.copy_some(100) == chunks - 1);  // chunk 0 rests at round 3
  std::vector<std::vector<float>> at_three = {rig.result(0)};
  for (std::uint32_t slot = 1; slot < chunks; ++slot) {
    push(slot, 3.0F);
    at_three.push_back(rig.result(slot));
    push(slot, 9.0F);  // and on
  }
  CHECK(rig.shard->updates.copying.copy_some(100) == 0);
  rig.shard->updates.copying.end();
  for (std::uint32_t slot = 0; slot < chunks; ++slot) {
    const std::uint64_t offset = rig.shard->updates.replies.offset(slot) / sizeof(float);
    for (std::size_t i = 0; i < at_three[slot].size(); ++i) {
      REQUIRE(copy->parameters_at(offset)[i] == at_three[slot][i]);
    }
  }

  // A shard that starts from the copy replies to its first round with it, and goes on alike.
  Rig second(RuleKind::kMomentum, 1, DataType::kFloat32, true);
  second.layout.initial = copy;
  second.make_shard();
  const auto push_second = [&](std::uint32_t slot, float value) {
    return second.push(
        0, slot, false, [value](std::size_t) { return value; }, keep);
  };
  for (std::uint32_t slot = 0; slot < chunks; ++slot) {
    push_second(slot, 123.0F);  // what a worker believes the initial values to be
    CHECK(second.result(slot) == at_three[slot]);
  }
  for (std::uint32_t slot = 1; slot < chunks; ++slot) {
    push_second(slot, 9.0F);
    CHECK(second.result(slot) == rig.result(slot));
  }
}

TEST_CASE("a chunk that rests is copied before its next update") {
  Rig rig(RuleKind::kNesterov, 1, DataType::kFloat32, true);
  std::vector<std::vector<float>> keep;
  for (std::uint32_t slot = 0; slot < rig.shard->chunks(); ++slot) {
    rig.push(
        0, slot, false, [](std::size_t) { return 2.0F; }, keep);
  }
  auto copy = std::move(*JobCopy::create(*rig.layout.plan, 0, 1));
  copy->round = 1;
  REQUIRE(rig.shard->updates.copying.begin(copy));
  for (std::uint32_t slot = 0; slot < rig.shard->chunks(); ++slot) {
    rig.push(
        0, slot, false, [](std::size_t) { return 7.0F; }, keep);
  }
  CHECK(rig.shard->updates.copying.copy_some(0) == 0);
  CHECK(*copy->parameters_at(0) == 2.0F);
  CHECK(rig.result(0)[0] != 2.0F);
}

}  // namespace phub::server
