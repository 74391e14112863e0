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
