#include <catch2/catch.hpp>

#include "server/job/timing.h"
#include "server/rpc/messages/messages.h"

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

TEST_CASE("What other racks bring after this rack's last push is a part of its own") {
  std::vector<RoundRecord> records = {round_at(1), round_at(2), round_at(3)};
  std::vector<RoundRecord> others = records;
  for (std::size_t i = 0; i < records.size(); ++i) {
    const auto at = [start = records[i].first_push](std::uint64_t milliseconds) {
      return start + milliseconds * kMillisecond;
    };
    records[i].complete = others[i].complete = at(85);
    records[i].replied = others[i].replied = at(90);
    // Pushed by 60 ms here; the second rack brings from 62 to 80 ms, the third from 30 to 50 ms.
    records[i].racks = {{}, {at(64), at(80)}, {}};
    others[i].racks = {{}, {at(62), at(70)}, {at(30), at(50)}};
  }
  const auto timing = timing_of({CoreRounds{0, records}, CoreRounds{1, others}});
  REQUIRE(timing);
  CHECK(timing->wait_seconds == Approx(0.040));
  CHECK(timing->racks_seconds == Approx(0.020));
  CHECK(timing->aggregate_seconds == Approx(0.005));
  CHECK(timing->reply_seconds == Approx(0.005));
  REQUIRE(timing->racks.size() == 3);
  CHECK_FALSE(timing->racks[0].brings);
  CHECK(timing->racks[1].last_share == Approx(1.0));
  CHECK(timing->racks[1].late_seconds == Approx(0.002));
  CHECK(timing->racks[1].arrival_seconds == Approx(0.018));
  CHECK(timing->racks[2].last_share == Approx(0.0));
  CHECK(timing->racks[2].late_seconds == Approx(0.0));
  CHECK(timing->racks[2].arrival_seconds == Approx(0.020));
}

namespace {
// Rack b of three, with workers 3 and 4; a's server is above it for some chunks, c brings nothing.
phub::server::JobView view_of_b() {
  phub::JobSpec spec{.name = "wide", .workers = 6};
  spec.racks = {{"a", 3}, {"b", 2}, {"c", 1}};
  phub::server::JobView view;
  view.spec = std::make_shared<const phub::JobSpec>(spec);
  view.rack = {.own = 1, .first_worker = 3, .workers = 2, .seats = 4};
  view.counters.chunks = 1;
  view.counters.workers = {{.pushes = 5, .bytes_received = 50}, {.pushes = 6, .bytes_sent = 60}};
  view.counters.racks = {{.above = {.pushes = 1, .bytes_received = 10, .bytes_sent = 20},
                          .below = {.pushes = 7, .bytes_received = 300, .bytes_sent = 400}},
                         {},
                         {}};
  for (std::uint32_t seat = 0; seat < 2; ++seat) {
    phub::server::MemberView& member = view.members.emplace_back();
    member.worker = seat;
    member.index = 3 + seat;
  }
  phub::server::MemberView& other = view.members.emplace_back();
  other.worker = 2;
  other.rack = "a";
  return view;
}
}  // namespace

TEST_CASE("Messages name workers by their index in the job, and other racks by name") {
  const phub::server::JobView view = view_of_b();
  phub::control::JobInfo job;
  phub::server::fill(view, phub::server::Keys::kLeftOut, job);
  CHECK(job.rack() == "b");
  REQUIRE(job.members_size() == 3);
  CHECK(job.members(0).worker_index() == 3);
  CHECK(job.members(0).bytes_received() == 50);
  CHECK(job.members(1).pushes() == 6);
  CHECK(job.members(2).rack() == "a");
  CHECK(job.members(2).pushes() == 7);  // its sums
  CHECK(job.members(2).bytes_received() == 310);
  CHECK(job.members(2).bytes_sent() == 420);
  REQUIRE(job.rack_links_size() == 2);
  CHECK(job.rack_links(0).rack() == "a");
  CHECK(job.rack_links(0).workers() == 3);
  CHECK(job.rack_links(0).bytes_up_sent() == 20);
  CHECK(job.rack_links(0).bytes_up_received() == 10);
  CHECK(job.rack_links(0).bytes_down_received() == 300);
  CHECK(job.rack_links(0).bytes_down_sent() == 400);
  CHECK(job.rack_links(1).rack() == "c");

  std::vector<RoundRecord> records;
  for (std::uint64_t number = 1; number < 4; ++number) {
    RoundRecord& record = records.emplace_back(round_at(number));
    record.workers.pop_back();
    record.racks = {
        {record.first_push + kMillisecond, record.first_push + 30 * kMillisecond}, {}, {}};
  }
  phub::control::JobTiming timing;
  phub::server::fill(view, timing_of({CoreRounds{0, records}}), timing);
  REQUIRE(timing.workers_size() == 2);
  CHECK(timing.workers(0).worker_index() == 3);
  CHECK(timing.workers(1).worker_index() == 4);
  REQUIRE(timing.racks_size() == 1);
  CHECK(timing.racks(0).rack() == "a");
  CHECK(timing.racks_seconds() == Approx(0.010));

  phub::control::TraceReply trace;
  phub::server::fill(view, {CoreRounds{0, records}}, trace);
  CHECK(trace.records(0).workers(1).worker_index() == 4);
  REQUIRE(trace.records(0).racks_size() == 1);
  CHECK(trace.records(0).racks(0).rack() == "a");
  CHECK(trace.records(0).racks(0).first_ns() == 101 * kMillisecond);
}

TEST_CASE("A plan over racks says what is rooted in each") {
  phub::JobSpec spec{.name = "wide", .workers = 3, .keys = {{.name = "w", .elements = 24 * 8192}}};
  spec.racks = {{"a", 1}, {"b", 1}, {"c", 1}};
  const phub::Plan plan = phub::make_plan(phub::plan_input(spec, {2})).value();
  phub::control::PlanReply reply;
  phub::server::fill({.spec = std::make_shared<const phub::JobSpec>(spec),
                      .plan = std::make_shared<const phub::Plan>(plan)},
                     reply);
  REQUIRE(reply.racks_size() == 3);
  for (const phub::control::RackRoots& rack : reply.racks()) {
    CHECK(rack.chunks() == 8);
    CHECK(rack.bytes() == 8 * 32768);
  }
  CHECK(reply.racks(2).rack() == "c");
}
