// What an earlier life of a job still has on its way is dropped and counted, and harms nobody.
#include <catch2/catch.hpp>

#include "tests/support/server/core_rig.h"

namespace phub::testing {

TEST_CASE("pushes of another epoch are dropped and counted, and the round goes on") {
  for (const std::string transport : {"shm", "verbs"}) {
    INFO(transport);
    CoreRig rig(transport);
    rig.round();
    CHECK(rig.drops(server::Drop::kStaleEpoch) == 0);
    for (std::uint64_t times = 1; times <= 3; ++times) {
      rig.stale_round();
      CHECK(rig.drops(server::Drop::kStaleEpoch) == times * CoreRig::kWorkers * CoreRig::kChunks);
      CHECK(rig.waiting_replies() == 0);
      rig.round();
    }
    CHECK(rig.drops(server::Drop::kDuplicatePush) == 0);
  }
}

TEST_CASE("a push over shm that points at another chunk's place ends its connection") {
  CoreRig rig("shm");
  rig.push_from_elsewhere(1, 3, 3);
  CHECK(rig.drops(server::Drop::kBadMemory) == 0);
  rig.push_from_elsewhere(1, 4, 5);
  CHECK(rig.drops(server::Drop::kBadMemory) == 1);
}

TEST_CASE("a few replies do not wait for ever while the core has other work") {
  constexpr int kTurns = 16;
  for (const std::string transport : {"shm", "verbs"}) {
    INFO(transport);
    CoreRig rig(transport);
    rig.round();
    rig.push_chunk(5);  // complete, and nothing else will be
    std::size_t replies = 0;
    for (int turn = 0; turn < kTurns; ++turn) {
      rig.busy_turn();
      replies += rig.waiting_replies();
    }
    CHECK(replies == CoreRig::kWorkers);
  }
}

}  // namespace phub::testing
