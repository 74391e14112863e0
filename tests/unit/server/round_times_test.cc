#include "server/connections/round_times.h"

#include <catch2/catch.hpp>

using phub::TickRate;
using phub::server::LatencyCounts;
using phub::server::RoundLog;
using phub::server::RoundTimes;

namespace {
const TickRate kTicksAreNanoseconds(1.0);

// Two workers, three chunks: worker 1 pushes `late` after worker 0.
void round(RoundLog& log, std::uint64_t start, std::uint64_t late) {
  for (std::uint64_t chunk = 0; chunk < 3; ++chunk) log.pushed(0, start + chunk);
  for (std::uint64_t chunk = 0; chunk < 3; ++chunk) {
    log.pushed(1, start + late + chunk);
    log.worked(5);
    log.completed(start + late + chunk + 1);
  }
  log.replied(0, 2, start + late + 4);
  log.replied(0, 1, start + late + 5);
  log.replied(1, 3, start + late + 6);
}
}  // namespace

TEST_CASE("The log says who pushed when, when chunks were complete and replies sent") {
  RoundLog log(2, 3);
  round(log, 1000, 50);
  round(log, 2000, 70);
  const auto records = log.last(10);
  REQUIRE(records.size() == 2);
  CHECK(records[1].round == 1);
  CHECK(records[1].first_push == 2000);
  CHECK(records[1].workers[0].last_push == 2002);
  CHECK(records[1].workers[1].first_push == 2070);
  CHECK(records[1].workers[1].last_push == 2072);
  CHECK(records[1].complete == 2073);
  CHECK(records[1].replied == 2076);
  CHECK(records[1].work == 15);
}

TEST_CASE("Only rounds that are over are shown, and the log keeps the last ones") {
  RoundLog log(2, 3);
  for (std::uint64_t i = 0; i < RoundLog::kRounds + 10; ++i) round(log, 1000 * (i + 1), 50);
  log.pushed(0, 999'999);  // the next one has begun
  const auto all = log.last(1000);
  REQUIRE(all.size() == RoundLog::kRounds - 1);
  CHECK(all.front().round == 11);
  CHECK(all.back().round == RoundLog::kRounds + 9);
  CHECK(log.last(3).front().round == RoundLog::kRounds + 7);
}

TEST_CASE("A chunk's wait is from its first push to its last, a reply's from the first push") {
  RoundTimes times(2, 1);
  times.pushed(0, 0, 10'000);
  times.pushed(1, 0, 70'000);
  times.gathered(0, 70'000, kTicksAreNanoseconds);
  times.completed(0, 80'000);
  times.pushed(0, 0, 90'000);  // the next round, before worker 1 has its reply
  times.replying(0, 100'000, kTicksAreNanoseconds);
  CHECK(times.wait_for_slowest.counts().sum_nanoseconds == 60'000);
  CHECK(times.push_to_reply.counts().sum_nanoseconds == 90'000);
}

TEST_CASE("A latency falls into the bucket whose bound is the next power of two microseconds") {
  phub::server::LatencyHistogram histogram;
  for (const std::uint64_t nanoseconds : {0ULL, 1000ULL, 1001ULL, 2000ULL, 2001ULL}) {
    histogram.add(nanoseconds);
  }
  histogram.add(std::uint64_t{1} << 50);  // beyond the last bound
  const LatencyCounts counts = histogram.counts();
  CHECK(counts.counts[0] == 2);
  CHECK(counts.counts[1] == 2);
  CHECK(counts.counts[2] == 1);
  CHECK(counts.counts[LatencyCounts::kBounds] == 1);
  CHECK(LatencyCounts::bound_seconds(0) == Approx(1e-6));
  CHECK(LatencyCounts::bound_seconds(2) == Approx(4e-6));
}

TEST_CASE("Ticks of years are converted as exactly as those of microseconds") {
  constexpr std::uint64_t kTicksPerMicrosecond = 2500;
  const phub::TickRate rate(2.5);
  for (const std::uint64_t microseconds : {1ULL, 300'000'000'000ULL, 3'000'000'000'000ULL}) {
    const double converted =
        static_cast<double>(rate.nanoseconds_of(microseconds * kTicksPerMicrosecond));
    CHECK(converted == Approx(static_cast<double>(microseconds) * 1e3).epsilon(1e-4).margin(1.0));
  }
}

TEST_CASE("What other racks bring belongs to the round of their own count") {
  RoundLog log(2, 3, {0, 2, 0, 1});  // this rack is the first; the third brings nothing
  round(log, 1000, 50);
  round(log, 2000, 50);
  for (const std::uint64_t now : {900ULL, 1040ULL, 2010ULL, 2020ULL, 3001ULL}) log.brought(1, now);
  for (const std::uint64_t now : {1049ULL, 2049ULL}) log.brought(3, now);
  const auto records = log.last(10);
  REQUIRE(records.size() == 2);
  REQUIRE(records[1].racks.size() == 4);
  CHECK(records[0].racks[1].first == 900);
  CHECK(records[0].racks[1].last == 1040);
  CHECK(records[1].racks[1].first == 2010);
  CHECK(records[1].racks[1].last == 2020);
  CHECK(records[1].racks[3].first == 2049);
  CHECK(records[1].racks[3].last == 2049);
  CHECK(records[1].racks[2].last == 0);
}

TEST_CASE("A round is not shown once another rack has begun the one that takes its place") {
  RoundLog log(2, 3, {0, 1});
  for (std::uint64_t i = 0; i < RoundLog::kRounds; ++i) {
    log.brought(1, 1000 * (i + 1));
    round(log, 1000 * (i + 1), 50);
  }
  log.brought(1, 999'999);  // of round kRounds, before anybody here has begun it
  const auto all = log.last(1000);
  REQUIRE(all.size() == RoundLog::kRounds - 1);
  CHECK(all.front().round == 1);
  CHECK(all.front().racks[1].last == 2000);
}
