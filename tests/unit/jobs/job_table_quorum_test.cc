// A job with a quorum and its members: whom it goes on without.
#include <catch2/catch.hpp>

#include "server/jobs/table.h"
#include "tests/support/server/job_table_fixture.h"

namespace phub::testing {
namespace {

using Catch::Matchers::Contains;

// Three workers, of whom two are enough.
struct QuorumFixture : JobTableFixture {
  std::vector<Identity> members;

  QuorumFixture() {
    JobSpec spec = spec_of(3);
    spec.deterministic = false;
    spec.rounds.quorum = 2;
    for (std::int32_t i = 0; i < 3; ++i) {
      members.push_back(join(spec, i).value());
      REQUIRE(ready(members.back(), spec).ok());
      connect(members.back());
    }
    REQUIRE(state() == JobState::kRunning);
  }
  bool is_lost(std::uint32_t worker) {
    return table.views.inspect("demo", 0).value().members[worker].was_lost;
  }
};

TEST_CASE("a job with a quorum goes on without a lost worker, which is named and let go") {
  QuorumFixture f;
  f.table.members.on_left_behind(f.members[1].job_id, 1, "its connection closed");
  f.table.members.on_left_behind(f.members[1].job_id, 1, "its connection closed");  // another core
  CHECK(f.state() == JobState::kRunning);
  CHECK(f.is_lost(1));
  CHECK(f.table.members.heartbeat(f.members[0])->is_live);
  CHECK(f.table.members.heartbeat(f.members[0])->workers_lost == std::vector<std::uint32_t>{1});
  const auto beat = f.table.members.heartbeat(f.members[1]);
  CHECK_FALSE(beat->is_live);
  CHECK_THAT(beat->reason, Contains("its connection closed") && Contains("goes on without it"));
  f.table.reap();
  f.table.reap();
  CHECK(f.data_plane.dropped == std::vector<std::uint32_t>{1});
}

TEST_CASE("who was lost and comes again is told that it cannot, and why") {
  QuorumFixture f;
  const auto again = [&] {
    JobSpec spec = spec_of(3);
    spec.deterministic = false;
    spec.rounds.quorum = 2;
    return f.join(spec, 1).error();
  };
  CHECK_THAT(again().message(), Contains("has all of its 3 workers"));
  f.table.members.on_left_behind(f.members[1].job_id, 1, "its connection closed");
  CHECK(again().code() == Code::kAlreadyExists);
  CHECK_THAT(again().message(), Contains("goes on without worker 1") &&
                                    Contains("cannot come back") && Contains("snapshot"));
}

TEST_CASE("a silent worker of a job with a quorum is let go after the heartbeat deadline") {
  QuorumFixture f;
  f.time_ms += 4000;
  REQUIRE(f.table.members.heartbeat(f.members[0]));
  REQUIRE(f.table.members.heartbeat(f.members[2]));
  f.time_ms += 1001;
  f.table.reap();
  CHECK(f.state() == JobState::kRunning);
  CHECK(f.is_lost(1));
  CHECK(f.data_plane.dropped == std::vector<std::uint32_t>{1});
}

TEST_CASE("a job with fewer than its quorum fails, and names the last one that it lost") {
  QuorumFixture f;
  f.table.members.on_left_behind(f.members[1].job_id, 1, "its connection closed");
  f.table.members.on_left_behind(f.members[2].job_id, 2, "its connection closed");
  CHECK(f.state() == JobState::kFailed);
  CHECK_THAT(f.reason(), Contains("worker 2"));
}

TEST_CASE("a core that cannot go on without a worker ends the job, quorum or not") {
  QuorumFixture f;
  f.table.members.on_left_behind(f.members[1].job_id, 1, "its connection closed");
  f.table.members.on_lost(f.members[1].job_id, 1, "its connection closed");
  CHECK(f.state() == JobState::kFailed);
}

TEST_CASE("who leaves a job with a quorum takes nobody along, and the last one ends it") {
  QuorumFixture f;
  REQUIRE(f.table.members.leave(f.members[0]).ok());
  CHECK(f.table.members.heartbeat(f.members[1])->workers_left.empty());
  f.table.members.on_left_behind(f.members[1].job_id, 1, "its connection closed");
  CHECK(f.state() == JobState::kRunning);
  REQUIRE(f.table.members.leave(f.members[2]).ok());
  CHECK(f.state() == JobState::kEnded);
}

TEST_CASE("a job does not go on without worker 0, which evaluates and saves") {
  QuorumFixture f;
  f.table.members.on_left_behind(f.members[0].job_id, 0, "its connection closed");
  CHECK(f.state() == JobState::kFailed);
  CHECK_THAT(f.reason(), Contains("worker 0") && Contains("its connection closed") &&
                             Contains("evaluates and saves"));
}

TEST_CASE("a job whose last worker is lost has failed") {
  QuorumFixture f;
  REQUIRE(f.table.members.leave(f.members[0]).ok());
  REQUIRE(f.table.members.leave(f.members[1]).ok());
  f.table.members.on_left_behind(f.members[2].job_id, 2, "its connection closed");
  CHECK(f.state() == JobState::kFailed);
  CHECK_THAT(f.reason(), Contains("worker 2"));
}

TEST_CASE("who leaves with a reason is lost, and is told of so") {
  QuorumFixture f;
  REQUIRE(f.table.members.leave(f.members[1], "no reply within 5 ms").ok());
  CHECK(f.state() == JobState::kRunning);
  CHECK(f.is_lost(1));
  REQUIRE(f.table.members.leave(f.members[2], "no reply within 5 ms").ok());
  CHECK(f.state() == JobState::kFailed);
}

TEST_CASE("the first reason of a loss is the one that is told") {
  QuorumFixture f;
  f.table.members.on_left_behind(f.members[1].job_id, 1, "no heartbeat for 5 ms");
  f.table.members.on_lost(f.members[1].job_id, 1, "it was lost on another way");
  CHECK(f.state() == JobState::kFailed);
  CHECK_THAT(f.reason(), Contains("no heartbeat for 5 ms"));
}

}  // namespace
}  // namespace phub::testing
