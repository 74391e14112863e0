#include <catch2/catch.hpp>

#include "server/job/timing.h"

using phub::server::CoreRounds;
using phub::server::JobTiming;
using phub::server::RoundRecord;
using phub::server::timing_of;

namespace {
constexpr std::uint64_t kMillisecond = 1'000'000;

// A round of three workers that takes 100 ms, the third one late: pushed at 10, 20, 60 ms.
RoundRecord round_at(std::uint64_t number) {
  const std::uint64_t start = number * 100 * kMillisecond;
  const auto at = [start](std::uint64_t milliseconds) {
    return start + milliseconds * kMillisecond;
  };
  return {.round = number,
          .first_push = start,
          .complete = at(65),
          .replied = at(70),
          .work = 8 * kMillisecond,
          .workers = {{start, at(10)}, {at(5), at(20)}, {at(40), at(60)}}};
}
}  // namespace

TEST_CASE("A round's time is split into parts that add up, and the late worker is told") {
  const auto timing = timing_of({CoreRounds{0, {round_at(1), round_at(2), round_at(3)}}});
  REQUIRE(timing);
  CHECK(timing->rounds == 2);  // the last one has no next to end it
  CHECK(timing->round_seconds == Approx(0.100));
  CHECK(timing->push_seconds == Approx(0.020));
  CHECK(timing->wait_seconds == Approx(0.040));
  CHECK(timing->aggregate_seconds == Approx(0.005));
  CHECK(timing->reply_seconds == Approx(0.005));
  CHECK(timing->compute_seconds == Approx(0.030));
  CHECK(timing->core_seconds == Approx(0.008));
  REQUIRE(timing->workers.size() == 3);
  CHECK(timing->workers[2].last_share == Approx(1.0));
  CHECK(timing->workers[2].late_seconds == Approx(0.040));
  CHECK(timing->workers[0].last_share == Approx(0.0));
  CHECK(timing->workers[0].late_seconds == Approx(0.0));
}

TEST_CASE("Several cores make one round: the first push, the last of the rest, all the work") {
  CoreRounds second{1, {round_at(1), round_at(2), round_at(3)}};
  for (RoundRecord& record : second.records) {
    record.first_push += 5 * kMillisecond;
    record.replied += 10 * kMillisecond;
  }
  const auto timing = timing_of({CoreRounds{0, {round_at(1), round_at(2), round_at(3)}}, second});
  REQUIRE(timing);
  CHECK(timing->reply_seconds == Approx(0.015));
  CHECK(timing->compute_seconds == Approx(0.020));
  CHECK(timing->core_seconds == Approx(0.016));
  CHECK(timing->round_seconds == Approx(0.100));
}

TEST_CASE("Rounds that one core has forgotten are left out, and no two rounds are no timing") {
  CHECK_FALSE(timing_of({}));
  CHECK_FALSE(timing_of({CoreRounds{0, {round_at(1)}}}));
  CHECK_FALSE(timing_of({CoreRounds{0, {round_at(1), round_at(3)}}}));
  CHECK_FALSE(timing_of({CoreRounds{0, {round_at(1), round_at(2)}}, CoreRounds{1, {}}}));
  const auto timing = timing_of({CoreRounds{0, {round_at(1), round_at(2), round_at(3)}},
                                 CoreRounds{1, {round_at(2), round_at(3)}}});
  REQUIRE(timing);
  CHECK(timing->rounds == 1);
}

TEST_CASE("Rounds that overlap count no time twice") {
  RoundRecord early = round_at(2);
  early.first_push = round_at(1).first_push + 50 * kMillisecond;  // before round 1 is over
  const auto timing = timing_of({CoreRounds{0, {round_at(1), early}}});
  REQUIRE(timing);
  CHECK(timing->round_seconds == Approx(0.050));
  CHECK(timing->push_seconds + timing->wait_seconds == Approx(0.050));
  CHECK(timing->aggregate_seconds == 0.0);
  CHECK(timing->compute_seconds == 0.0);
}
