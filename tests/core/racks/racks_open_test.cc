// Racks that do not wait long for each other: one that is stopped holds up nobody, and what each
// has moved is in all racks' parameters once.
#include <chrono>

#include "tests/support/main/catch.h"
#include "tests/support/server/racks/open_racks.h"

namespace phub {
using testing::fill_gradients;
using testing::kNever;
using testing::kOpenSteps;
using testing::kSoon;
using testing::open_racks;
using testing::RacksOptions;
using testing::RacksRig;
using testing::rest;
using testing::rounds_of;
using testing::run_alone;
using testing::train_alone;

TEST_CASE("racks that are in step have the bits of racks that wait for each other", "[racks]") {
  RacksOptions options = open_racks(GENERATE(1U, 2U), kNever);
  options.workers = {2, 1};
  options.rule = RuleKind::kMomentum;
  options.rack_local.learning_rate = 0.5F;
  options.rack_local.momentum = 0.75F;
  options.wire_type = GENERATE(DataType::kFloat32, DataType::kBfloat16);
  options.rack_compress = {.density = GENERATE(0.0F, 0.05F), .dense_below = 1};
  RacksRig rig(options);
  options.rack_local.quorum = 0;
  RacksRig waiting(options);
  for (int round = 0; round < 10; ++round) {
    for (RacksRig* const each : {&rig, &waiting}) {
      std::mt19937 random(static_cast<unsigned>(round));
      each->randomise(random);
      each->round();
    }
    for (std::uint32_t rack = 0; rack < 2; ++rack) {
      CHECK((rig.worker(rack, 0).parameters == waiting.worker(rack, 0).parameters));
      CHECK(rig.job(rack).staging->in_use() == 0);
    }
  }
}

TEST_CASE("a stopped rack holds up nobody, and what each moves counts once", "[racks]") {
  constexpr double kRate = 0.5 * 0.25;  // the learning rate times the scale
  constexpr std::uint32_t kTurns = 3;
  RacksOptions options = open_racks(1, kSoon);
  options.weight_decay = 0.0F;
  options.rack_local.learning_rate = 2.0F;  // of a mean over two racks that push in turns
  RacksRig rig(options);
  std::mt19937 random(1);
  rig.randomise(random);
  const std::vector<std::byte> initial = rig.worker(0, 0).gradients;
  rig.round();
  // One rack stands still, and then the other. At the end nothing is moved, so that all is merged.
  for (std::uint32_t turn = 0; turn < kTurns + 3; ++turn) {
    for (std::uint32_t rack = 0; rack < 2; ++rack) {
      fill_gradients(rig, rack, turn < kTurns ? 1.0F : 0.0F);
      train_alone(rig, rack, kOpenSteps);
      for (std::uint32_t other = 0; other < 2; ++other) rest(rig, other);
    }
  }
  const auto* const begin = reinterpret_cast<const float*>(initial.data());
  for (std::uint32_t rack = 0; rack < 2; ++rack) {
    const auto* const end = reinterpret_cast<const float*>(rig.worker(rack, 0).parameters.data());
    for (const Chunk& chunk : rig.plan->chunks) {
      INFO("rack " << rack << ", root " << rig.root(chunk));
      double worst = 0.0;
      for (std::uint64_t i = chunk.arena_offset; i < chunk.arena_offset + chunk.elements; ++i) {
        const double moved = i % 4 < 2 ? kRate * kTurns * kOpenSteps : 0.0;
        worst = std::max(worst, std::abs(end[i] - (begin[i] - moved)));
      }
      CHECK(worst < 1e-4);
    }
  }
}

TEST_CASE("racks that stop at any time come together again", "[racks]") {
  const unsigned seed = GENERATE(range(0U, 12U));
  INFO("seed " << seed);
  std::mt19937 random(seed);
  RacksOptions options = open_racks(1 + static_cast<std::uint32_t>(random() % 3), kSoon);
  options.workers = {1, 2, 1};
  options.rule = std::vector{RuleKind::kMomentum, RuleKind::kLars, RuleKind::kAdam}[random() % 3];
  options.rack_local.momentum = 0.5F;
  options.clip_norm = options.rule == RuleKind::kMomentum && random() % 2 == 0 ? 0.5F : 0.0F;
  options.rack_compress = {.density = random() % 2 == 0 ? 0.0F : 0.1F, .dense_below = 1};
  RacksRig rig(options);
  rig.randomise(random);
  rig.round();
  rig.randomise(random);
  std::vector<std::size_t> due(3, rig.plan->chunks.size());
  const auto begin_round = [&](std::uint32_t rack) {
    if (rig.worker(rack, 0).replies < due[rack]) return false;
    for (std::uint32_t slot = 0; slot < rig.plan->chunks.size(); ++slot) {
      if (!rig.worker(rack, 0).has_room()) return false;
    }
    for (std::uint32_t slot = 0; slot < rig.plan->chunks.size(); ++slot) rig.push(rack, slot);
    due[rack] += rig.plan->chunks.size();
    return true;
  };
  for (int event = 0; event < 300; ++event) {
    const auto rack = static_cast<std::uint32_t>(random() % 3);
    begin_round(rack);
    const auto polls = random() % 40;
    for (unsigned i = 0; i < polls; ++i) {
      rig.core(rack).run_once();
      for (std::uint32_t index = 0; index < rig.workers(rack); ++index) {
        rig.worker(rack, index).poll();
      }
    }
  }
  const auto is_idle = [&](std::uint32_t rack) { return rig.worker(rack, 0).replies >= due[rack]; };
  const auto deadline = std::chrono::steady_clock::now() + testing::kHangGuard;
  const auto run_until = [&](const auto& is_over) {
    while (!is_over()) {
      REQUIRE(std::chrono::steady_clock::now() < deadline);
      rig.run_once();
    }
  };
  const auto are_idle = [&] { return is_idle(0) && is_idle(1) && is_idle(2); };
  // Racks get to the round that ends with an exchange, and push it together, until one has all.
  for (bool are_equal = false; !are_equal;) {
    for (std::uint32_t rack = 0; rack < 3; ++rack) {
      run_until([&] { return is_idle(rack); });
      while (rig.job(rack).shard.updates.chunks.front().rounds % kOpenSteps != 0) {
        run_until([&] { return begin_round(rack); });
        run_until([&] { return is_idle(rack); });
      }
    }
    for (std::uint32_t rack = 0; rack < 3; ++rack) run_until([&] { return begin_round(rack); });
    run_until(are_idle);
    are_equal = rig.worker(0, 0).parameters == rig.worker(1, 0).parameters &&
                rig.worker(0, 0).parameters == rig.worker(2, 0).parameters;
  }
  for (std::uint32_t rack = 0; rack < 3; ++rack) {
    CHECK_FALSE(rig.job(rack).shard.stopped());
    CHECK(rounds_of(rig, rack).held() == 0);
    CHECK(rig.job(rack).staging->in_use() == 0);
  }
}

TEST_CASE("restored racks go on from what they had together", "[racks]") {
  RacksOptions options = open_racks(1, kNever);
  RacksRig rig(options);
  std::mt19937 random(3);
  std::vector<std::vector<std::byte>> together;
  for (std::uint32_t round = 0; round < kOpenSteps + 2; ++round) {
    rig.randomise(random);
    rig.round();
    if (round != kOpenSteps) continue;  // it ends with an exchange
    for (std::uint32_t rack = 0; rack < 2; ++rack)
      together.push_back(rig.worker(rack, 0).parameters);
  }
  for (std::uint32_t rack = 0; rack < 2; ++rack) {
    auto copy = std::move(
        *server::JobCopy::create(*rig.plan, 0, server::state_arrays(options.rule, 0.0, true)));
    copy->round = kOpenSteps + 2;
    auto& copying = rig.job(rack).shard.updates.copying;
    REQUIRE(copying.begin(copy));
    REQUIRE(copying.copy_some(rig.job(rack).shard.chunks()) == 0);
    copying.end();
    options.initial.push_back(std::move(copy));
  }
  RacksRig restored(options);
  restored.randomise(random);
  restored.round();
  for (std::uint32_t rack = 0; rack < 2; ++rack) {
    CHECK((restored.worker(rack, 0).parameters == together[rack]));
    CHECK((rig.worker(rack, 0).parameters != together[rack]));
  }
}

TEST_CASE("a rack that pushes a difference twice ends its job", "[racks]") {
  RacksOptions options = open_racks(2, kNever);
  options.workers = {1, 1, 1};
  options.has_stranger = true;
  RacksRig rig(options);
  std::uint32_t slot = 0;
  while (rig.root(rig.plan->chunks[slot]) != 0) ++slot;
  const std::vector<std::byte> zeros(rig.plan->chunks[slot].elements * sizeof(float));
  const auto run = [&] {
    for (int i = 0; i < 200; ++i) rig.run_once();
  };
  rig.push(0, slot);
  rig.push(1, slot);
  rig.push_as_stranger(slot, zeros);
  run();
  rig.push_as_stranger(slot, zeros);
  run();
  REQUIRE_FALSE(rig.job(0).shard.stopped());
  rig.push_as_stranger(slot, zeros);
  run();
  CHECK(rig.job(0).shard.stopped());
  CHECK(rig.core(0).drops().value(server::Drop::kDuplicatePush) == 1);
}

}  // namespace phub
