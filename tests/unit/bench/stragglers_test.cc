// Who is how slow when, what policies are, and what a worker is told.
#include "bench/stragglers/stragglers.h"

#include <catch2/catch.hpp>

#include "bench/stragglers/worker.h"

namespace phub::bench::stragglers {
namespace {

constexpr std::uint32_t kWorkers = 4;

// In rounds 0 to 999, how many of this worker's take longer than a second.
int slow_rounds(const Slowness& slowness, std::uint32_t worker) {
  int slow = 0;
  for (std::uint64_t round = 0; round < 1000; ++round) {
    slow += compute_of(slowness, worker, kWorkers, round, 1.0) > 1.0 ? 1 : 0;
  }
  return slow;
}

}  // namespace

TEST_CASE("nobody is slow, always the last, or the last in a share of its rounds") {
  CHECK(slow_rounds({.kind = "none"}, 3) == 0);
  CHECK(slow_rounds({.kind = "slow"}, 3) == 1000);
  CHECK(slow_rounds({.kind = "slow"}, 2) == 0);
  CHECK(compute_of({.kind = "slow", .factor = 2.5}, 3, kWorkers, 7, 2.0) == 5.0);
  CHECK(slow_rounds({.kind = "sleep", .chance = 0.0}, 3) == 0);
  CHECK(slow_rounds({.kind = "sleep", .chance = 1.0, .sleep = 0.5}, 3) == 1000);
  CHECK(slow_rounds({.kind = "sleep", .chance = 1.0}, 0) == 0);
  const int share = slow_rounds({.kind = "sleep", .chance = 0.25}, 3);
  CHECK((share > 200 && share < 300));  // the same in every run
}

TEST_CASE("a slowness that moves is one worker's in each round, and everybody's by turns") {
  const Slowness moving{.kind = "moving", .factor = 3.0};
  for (std::uint64_t round = 0; round < 100; ++round) {
    double sum = 0.0;
    for (std::uint32_t worker = 0; worker < kWorkers; ++worker) {
      sum += compute_of(moving, worker, kWorkers, round, 1.0);
    }
    CHECK(sum == 6.0);
  }
  for (std::uint32_t worker = 0; worker < kWorkers; ++worker)
    CHECK(slow_rounds(moving, worker) > 0);
}

TEST_CASE("policies are settings of a round, and reach the worker") {
  StragglersOptions options;
  options.work.workers = kWorkers;
  options.grace_ms = 7;
  CHECK(rounds_of(options, "all") == RoundPolicy());
  CHECK(rounds_of(options, "backup") == RoundPolicy{.quorum = 3, .grace_ms = 7});
  CHECK(rounds_of(options, "async") == RoundPolicy{.quorum = 1, .late = LatePushes::kAdd});
  const RoundPolicy ssp = rounds_of(options, "ssp");
  CHECK(ssp == RoundPolicy{.quorum = 1, .staleness = 3, .late = LatePushes::kAdd});

  const Stretch told = stretch_of(text_of(Stretch{.job = "a-1",
                                                  .rounds = ssp,
                                                  .slowness = {.kind = "slow", .factor = 1.5},
                                                  .compute = 0.25,
                                                  .seconds = 3.0}));
  CHECK(told.job == "a-1");
  CHECK(told.rounds == ssp);
  CHECK(told.slowness.kind == "slow");
  CHECK(told.slowness.factor == 1.5);
  CHECK(told.compute == 0.25);
  CHECK(told.seconds == 3.0);
}

}  // namespace phub::bench::stragglers
