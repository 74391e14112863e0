// Hyper-parameters and votes that go to racks above: no more than a rack takes in a round.
#include "tests/support/main/catch.h"
#include "tests/support/server/racks/racks_rig.h"

namespace phub {
namespace {

using testing::RacksRig;
using testing::RacksWorker;

constexpr int kSaidTimes = 16;  // more than the other rack takes in a round

Hyper said_in(int round) {
  return {.learning_rate = 0.01F * static_cast<float>(1 + round), .gradient_scale = 0.5F};
}

// Rack 0 takes what its worker has sent, and sends what follows of it. Rack 1 stands still.
void run_rack_0(RacksRig& rig) {
  for (int i = 0; i < 100; ++i) rig.core(0).run_once();
}

// Each stream of a worker brings the same ones.
TEST_CASE("hyper-parameters that come on many streams go to the rack above once", "[racks]") {
  RacksRig rig({.workers = {1, 1}, .rule = RuleKind::kSgd, .keys = 2});
  std::mt19937 random(1);
  rig.randomise(random);
  rig.round();
  for (int round = 0; round < 3; ++round) {
    const std::uint64_t sent = rig.job(0).above_counters[1].bytes_sent.value();
    for (int i = 0; i < kSaidTimes; ++i) {
      rig.send_hyper(said_in(round % 2));
      run_rack_0(rig);
    }
    CHECK(rig.job(0).above_counters[1].bytes_sent.value() == sent + sizeof(Hyper));
    for (int i = 0; i < 100; ++i) rig.run_once();
    REQUIRE_FALSE(rig.core(1).next_event());
    rig.round();
    rig.for_each([&](std::uint32_t, const RacksWorker& worker) {
      CHECK(worker.parameters == rig.worker(0, 0).parameters);
    });
  }
}

// Its rounds would not wait until the other rack has read them.
TEST_CASE("words go to no rack that a core pushes no chunk to", "[racks]") {
  RacksRig rig({.workers = {1, 1},
                .rule = RuleKind::kSgd,
                .loss_scale = {LossScaling::kVoted, 1.0F},
                .keys = 1});
  REQUIRE(rig.root(rig.plan->chunks[0]) == 0);
  std::mt19937 random(1);
  rig.randomise(random);
  rig.round();
  for (int i = 0; i < kSaidTimes; ++i) {
    rig.send_hyper(said_in(i));
    run_rack_0(rig);
  }
  rig.push_all();
  rig.vote_all(1.0F);
  rig.finish();
  CHECK_FALSE(rig.core(1).next_event());
  CHECK(rig.job(0).above_counters[1].bytes_sent.value() == 0);
  CHECK(rig.job(1).above_counters[0].bytes_sent.value() > 0);
  CHECK(rig.worker(1, 0).parameters == rig.worker(0, 0).parameters);
}

}  // namespace
}  // namespace phub
