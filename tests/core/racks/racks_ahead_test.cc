// A chunk whose next round begins while sums of the round before wait for their turn.
#include "tests/support/main/catch.h"
#include "tests/support/server/racks/racks_rig.h"
#include "tests/support/server/slow_clock.h"

namespace phub {
namespace {

using testing::RacksOptions;
using testing::RacksRig;
using testing::RacksWorker;
using testing::SlowClock;

RacksOptions compressed(TickSource* time) {
  return {.workers = {1, 1},
          .rule = RuleKind::kMomentum,
          .loss_scale = {LossScaling::kVoted, 1.0F},
          .rack_compress = {.density = 0.5F, .dense_below = 1},
          .time = time};
}

// Each worker pushes a chunk again as soon as it has the reply. False: some have none.
bool push_ahead(RacksRig& rig) {
  const std::size_t chunks = rig.plan->chunks.size();
  std::vector<std::vector<bool>> is_pushed(rig.racks(), std::vector<bool>(chunks));
  std::size_t left = chunks * rig.racks();
  for (int idle = 0; left > 0 && idle < 10'000; ++idle) {
    rig.run_once();
    rig.for_each([&](std::uint32_t rack, RacksWorker& worker) {
      for (std::uint32_t slot = 0; slot < chunks; ++slot) {
        if (is_pushed[rack][slot] || worker.replies_of[slot] < 2 || !worker.has_room()) continue;
        worker.push(slot, RacksRig::epoch(rack));
        is_pushed[rack][slot] = true;
        --left;
      }
    });
  }
  return left == 0;
}

TEST_CASE("a chunk that is a round ahead waits for its own round's loss scale", "[racks]") {
  SlowClock clock(1'000'000);  // a turn is over at the first look
  RacksRig rig(compressed(&clock)), in_step(compressed(nullptr));
  for (RacksRig* each : {&rig, &in_step}) {
    std::mt19937 random(1);
    each->randomise(random);
    each->round();
    each->push_all();
    each->vote_all(2.0F);
  }
  REQUIRE(push_ahead(rig));
  rig.vote_all(8.0F);
  rig.finish();
  rig.finish();
  in_step.finish();
  in_step.push_all();
  in_step.vote_all(8.0F);
  in_step.finish();
  for (std::uint32_t rack = 0; rack < 2; ++rack) {
    CHECK(rig.worker(rack, 0).parameters == in_step.worker(0, 0).parameters);
  }
}

}  // namespace
}  // namespace phub
