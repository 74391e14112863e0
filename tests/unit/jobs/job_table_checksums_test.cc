// A job with checksums: who pushed what has not its own ends it, by name.
#include <catch2/catch.hpp>

#include "common/job/check.h"
#include "server/rpc/messages/messages.h"
#include "tests/support/server/carried_spec.h"
#include "tests/support/server/job_table_fixture.h"

namespace phub::testing {
namespace {

using Catch::Matchers::Contains;

struct CheckedFixture : JobTableFixture {
  CheckedFixture() {
    JobSpec spec = spec_of(3);
    spec.checksums = true;
    for (std::int32_t i = 0; i < 3; ++i) {
      const Identity member = join(spec, i).value();
      REQUIRE(ready(member, spec).ok());
      connect(member);
    }
    REQUIRE(state() == JobState::kRunning);
    data_plane.corruption.resize(3);
  }
};

TEST_CASE("a push that has not its checksum ends the job with worker, key and round") {
  CheckedFixture f;
  f.table.reap();
  CHECK(f.state() == JobState::kRunning);
  f.data_plane.corruption[0] = {.pushes = 1, .round = 9, .key = 0};
  f.data_plane.corruption[2] = {.pushes = 2, .round = 8, .key = 1};
  f.table.reap();
  CHECK(f.state() == JobState::kFailed);
  CHECK_THAT(f.reason(), Contains("worker 2 (host host2, pid 77) pushed a chunk of key \"b\" in "
                                  "round 8 that has not its checksum") &&
                             Contains("test that host's memory"));
}

TEST_CASE("a job's end for a checksum says so of initial values") {
  CheckedFixture f;
  f.data_plane.corruption[1] = {.pushes = 1, .round = 0, .key = 0};
  f.table.reap();
  CHECK_THAT(f.reason(), Contains("worker 1") && Contains("of the initial values"));
}

TEST_CASE("only the member whose pushes had not their checksum has that in its message") {
  CheckedFixture f;
  f.data_plane.corruption[1] = {.pushes = 3, .round = 17, .key = 1};
  control::JobInfo job;
  server::fill(f.table.views.inspect("demo", 0).value(), server::Keys::kIncluded, job);
  CHECK_FALSE(job.members(0).has_corruption());
  CHECK_FALSE(job.members(2).has_corruption());
  CHECK(job.members(1).corruption().pushes() == 3);
  CHECK(job.members(1).corruption().key() == "b");
  CHECK(job.members(1).corruption().round() == 17);
}

TEST_CASE("what cores found of a worker is the earliest, and the sum") {
  std::vector<server::WorkerCorruption> all;
  server::add({{}, {.pushes = 1, .round = 5, .key = 7}}, all);
  server::add({{}, {.pushes = 2, .round = 4, .key = 3}}, all);
  server::add({{}, {}}, all);
  CHECK(all[0].pushes == 0);
  CHECK(all[1].pushes == 3);
  CHECK(all[1].round == 4);
  CHECK(all[1].key == 3);
}

TEST_CASE("checksums cross the control plane, all workers have them, also of a job of racks") {
  for (const bool checksums : {true, false}) {
    JobSpec spec = spec_of(2);
    spec.checksums = checksums;
    const auto read = carried(spec);
    REQUIRE(read);
    CHECK(read->checksums == checksums);
    CHECK(validate(spec).ok());
    CHECK(compare(spec, *read).ok());
    JobSpec other = spec;
    other.checksums = !checksums;
    CHECK_THAT(compare(spec, other).message(),
               Contains(checksums ? "checksums is true in the job but false in this join"
                                  : "checksums is false in the job but true in this join"));
    spec.racks = {{"a", 1}, {"b", 1}};
    CHECK(validate(spec).ok());
  }
}

}  // namespace
}  // namespace phub::testing
