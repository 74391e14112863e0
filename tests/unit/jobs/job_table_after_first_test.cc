// Workers that join after worker 0 wait for a job that it made, has restored, or made anew.
#include <catch2/catch.hpp>

#include "tests/support/server/job_table_fixture.h"

namespace phub::server {
namespace {

using namespace testing;  // NOLINT(google-build-using-namespace): what the tests are about
using Catch::Contains;

struct Fixture : JobTableFixture {
  Result<Identity> join_after_first(std::int32_t index, const JobSpec& spec = spec_of(2)) {
    return table.members.join({.spec = std::make_shared<const JobSpec>(spec),
                               .worker_index = index,
                               .host = "host",
                               .process_id = 77,
                               .after_first = true});
  }
  void refuses(std::int32_t index, const std::string& words) {
    const auto joined = join_after_first(index);
    REQUIRE_FALSE(joined);
    CHECK(joined.error().code() == Code::kUnavailable);
    CHECK_THAT(joined.error().message(), Contains(words));
  }
};

TEST_CASE("No worker but worker 0 makes the job") {
  Fixture f;
  f.refuses(1, "is not there yet: worker 0 makes or restores it");
  CHECK_FALSE(f.table.views.inspect("demo", 0));
  REQUIRE(f.join_after_first(0));
  CHECK(f.join_after_first(1));
}

TEST_CASE("A job that waits without worker 0 is not joined by others") {
  Fixture f;
  REQUIRE(f.table.life.create(spec_of(2)));
  f.refuses(1, "waits for worker 0");
  const auto first = f.join_after_first(0);
  REQUIRE(first);
  REQUIRE(f.table.members.leave(*first).ok());
  f.refuses(1, "waits for worker 0");
  REQUIRE(f.join_after_first(0));
  CHECK(f.join_after_first(1));
}

TEST_CASE("A job that runs is joined by nobody, and the next one under its name is") {
  Fixture f;
  const auto members = f.running(2);
  f.refuses(1, "runs, and is to be joined when it has ended");
  f.refuses(0, "runs, and is to be joined when it has ended");
  f.table.members.on_lost(members[1].job_id, 1, "the connection closed");
  REQUIRE(f.state() == JobState::kFailed);
  f.refuses(1, "is not there yet");
  REQUIRE(f.join_after_first(0));
  CHECK(f.join_after_first(1));
}

// Makes a job from a snapshot. Its file is not read before the job starts.
Result<std::uint64_t> restore(Fixture& f) {
  return f.table.life.create(spec_of(2), std::string(kDefaultTenant), std::nullopt, "file",
                             /*by_workers=*/true);
}

TEST_CASE("What its workers had restored takes them alone, and another restore takes its place") {
  Fixture f;
  const auto id = restore(f);
  REQUIRE(id);
  const auto stranger = f.join(spec_of(2));
  REQUIRE_FALSE(stranger);
  CHECK(stranger.error().code() == Code::kAlreadyExists);
  CHECK_THAT(stranger.error().message(), Contains("restored by its workers"));
  CHECK(restore(f).value() == *id);
  f.refuses(1, "waits for worker 0");
  REQUIRE(f.join_after_first(0));
  CHECK(restore(f).error().code() == Code::kAlreadyExists);
  CHECK(f.join_after_first(1));
}

TEST_CASE(
    "What its workers had restored ends when none has joined it, and an administrator's waits") {
  Fixture f;
  REQUIRE(restore(f));
  REQUIRE(
      f.table.life.create(spec_of(2, "kept"), std::string(kDefaultTenant), std::nullopt, "file"));
  f.time_ms += 59'000;
  f.table.reap();
  CHECK(f.state() == JobState::kWaiting);
  f.time_ms += 1'000;
  f.table.reap();
  CHECK(f.state() == JobState::kEnded);
  CHECK_THAT(f.reason(), Contains("none has joined it"));
  CHECK(f.state("kept") == JobState::kWaiting);
}

TEST_CASE("A worker that has its seat already is refused as any other is") {
  Fixture f;
  REQUIRE(f.join_after_first(0));
  REQUIRE(f.join_after_first(1));
  const auto again = f.join_after_first(1);
  REQUIRE_FALSE(again);
  CHECK(again.error().code() == Code::kAlreadyExists);
}

}  // namespace
}  // namespace phub::server
