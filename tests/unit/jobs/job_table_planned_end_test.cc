#include <catch2/catch.hpp>
#include <string>

#include "tests/support/server/job_table_fixture.h"

namespace phub::testing {
namespace {

using Catch::Matchers::Contains;

HeartbeatReply beat(JobTableFixture& f, const Identity& member, const EndWords& words = {}) {
  return f.table.members.heartbeat(member, false, words).value();
}

TEST_CASE("who wants a job's end tells all members, who agree on worker 0's last step") {
  JobTableFixture f;
  const auto members = f.running(3);
  CHECK(beat(f, members[0]).ending.empty());
  CHECK(beat(f, members[2], {.wanted = "worker 2 was asked to stop"}).last_step == 0);
  CHECK(beat(f, members[0]).ending == "worker 2 was asked to stop");
  // The first reason stays, and only worker 0 chooses the step, once.
  CHECK(beat(f, members[1], {.wanted = "another", .last_step = 7}).last_step == 0);
  CHECK(beat(f, members[0], {.last_step = 12}).last_step == 12);
  CHECK(beat(f, members[0], {.last_step = 15}).last_step == 12);
  const auto told = beat(f, members[1]);
  CHECK(told.is_live);
  CHECK(told.ending == "worker 2 was asked to stop");
  CHECK(told.last_step == 12);
  CHECK_FALSE(beat(f, members[0]).all_know);
  beat(f, members[1], {.known_last_step = 12});
  CHECK_FALSE(beat(f, members[0]).all_know);
  beat(f, members[2], {.known_last_step = 11});
  CHECK_FALSE(beat(f, members[0]).all_know);
  beat(f, members[2], {.known_last_step = 12});
  CHECK(beat(f, members[0]).all_know);
  CHECK(f.state() == JobState::kRunning);
}

TEST_CASE("a member that has left need not know the last step") {
  JobTableFixture f;
  const auto members = f.running(2);
  beat(f, members[0], {.wanted = "it is late", .last_step = 3});
  REQUIRE(f.table.members.leave(members[1]).ok());
  CHECK(beat(f, members[0]).all_know);
}

TEST_CASE("a last step without an end that somebody wants is none") {
  JobTableFixture f;
  const auto members = f.running(1);
  CHECK(beat(f, members[0], {.last_step = 3}).last_step == 0);
}

TEST_CASE("a drain tells workers to stop, ten seconds before its deadline or at once") {
  JobTableFixture f;
  const auto members = f.running(2);
  const std::int64_t timeout = GENERATE(4'000, 60'000);
  CHECK(f.table.drain(milliseconds(timeout)) == 1);
  if (timeout > 10'000) {
    f.time_ms += timeout - 10'001;
    for (const Identity& member : members) CHECK(beat(f, member).ending.empty());
    f.table.reap();
    CHECK(beat(f, members[0]).ending.empty());
    f.time_ms += 1;
    f.table.reap();
  }
  CHECK_THAT(beat(f, members[0]).ending, Contains("stopped or drained"));
  CHECK(f.state() == JobState::kRunning);
}

TEST_CASE("a drain without a deadline leaves jobs to their own end") {
  JobTableFixture f;
  const auto members = f.running(1);
  f.table.drain(milliseconds(0));
  f.time_ms += 1000;
  f.table.reap();
  CHECK(beat(f, members[0]).ending.empty());
}

}  // namespace
}  // namespace phub::testing
