// A job of two racks in the job table goes on when the other rack dies. Its workers are told.
#include <catch2/catch.hpp>
#include <vector>

#include "tests/support/server/racks/rack_fixture.h"

namespace phub::testing {
namespace {

using Workers = std::vector<std::uint32_t>;

TEST_CASE("a heartbeat's reply says which workers of a lost rack the job goes on without") {
  RackFixture f;
  const auto members = f.going_on();
  CHECK(f.table.members.heartbeat(members[0])->workers_lost == Workers{});
  f.table.members.on_rack_lost(members[0].job_id, "a", "it did not reply");
  const auto beat = f.table.members.heartbeat(members[0]);
  CHECK(beat->is_live);
  CHECK(beat->workers_lost == Workers{0});
  CHECK(beat->workers_left == Workers{});
}

TEST_CASE("the reason of a lost rack says whose connection closed") {
  RackFixture f;
  const auto members = f.going_on();
  f.table.members.on_left_behind(members[2].job_id, members[2].worker, "its connection closed");
  CHECK(f.state() == JobState::kRunning);
  CHECK_THAT(f.table.members.heartbeat(members[2])->reason,
             Catch::Contains("rack a (host host, pid 7): its connection closed"));
}

TEST_CASE("who comes too late to a job that goes on is told without whom") {
  RackFixture f;
  const auto members = f.going_on();
  f.table.members.on_rack_lost(members[0].job_id, "a", "it did not reply");
  CHECK_THAT(f.join("").error().message(), Catch::Contains("goes on without worker 0,"));
}

TEST_CASE("a rack that has left is not lost") {
  RackFixture f;
  const auto members = f.going_on();
  REQUIRE(f.table.members.leave(members[2]).ok());
  const auto beat = f.table.members.heartbeat(members[0]);
  CHECK(beat->workers_lost == Workers{});
  CHECK(beat->workers_left == Workers{0});
}

}  // namespace
}  // namespace phub::testing
