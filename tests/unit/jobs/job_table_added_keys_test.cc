// Keys that are added to a job of the table: whose they are, who is told of a wrong list, and how
// they end.
#include <catch2/catch.hpp>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/server/job_table_fixture.h"

namespace phub::testing {
namespace {

using Catch::Matchers::Contains;

struct AddingFixture : JobTableFixture {
  explicit AddingFixture(std::function<void(const JobView&)> before_drain_ends = {})
      : JobTableFixture(nullptr, {}, {}, std::move(before_drain_ends)) {}

  std::vector<Identity> members = running(3);
  JobSpec added = spec_of(3, "demo+1");

  void add_all() {
    for (std::int32_t index = 0; index < 3; ++index) {
      const Identity member = add(added, index).value();
      REQUIRE(ready(member, added).ok());
      connect(member);
    }
    REQUIRE(state(added.name) == JobState::kRunning);
  }

  Result<Identity> add(const JobSpec& spec, std::int32_t index,
                       const std::string& tenant = std::string(kDefaultTenant)) {
    return table.members.join({.spec = std::make_shared<const JobSpec>(spec),
                               .tenant = tenant,
                               .worker_index = index,
                               .host = "host" + std::to_string(index),
                               .process_id = 77,
                               .base = members[0]});
  }
};

}  // namespace

TEST_CASE("a list of added keys that differs is told to who waits, and to who comes later") {
  AddingFixture fixture;
  const Identity first = fixture.add(fixture.added, 0).value();
  REQUIRE(fixture.ready(first, fixture.added).ok());
  auto start = fixture.start(first);
  JobSpec other = fixture.added;
  other.keys[1].elements = 49;
  const std::string differs = "keys[1] (\"b\") elements is 50000 in the job but 49 in this join";
  CHECK_THAT(fixture.add(other, 1).error().message(), Contains(differs));
  CHECK_THAT(start.get().message(), Contains("host1") && Contains(differs));
  CHECK_THAT(fixture.add(fixture.added, 2).error().message(), Contains(differs));
  CHECK(fixture.state() == JobState::kRunning);
}

TEST_CASE("a list of added keys that no job may have is told to all too") {
  AddingFixture fixture;
  const Identity first = fixture.add(fixture.added, 0).value();
  JobSpec wrong = fixture.added;
  wrong.keys[0].elements = 0;
  CHECK_FALSE(fixture.add(wrong, 1).has_value());
  CHECK(fixture.state("demo+1") == JobState::kFailed);
  CHECK_THAT(fixture.reason("demo+1"), Contains("keys[0].elements"));
  CHECK_FALSE(fixture.table.members.heartbeat(first)->is_live);
}

TEST_CASE("who comes when the others have given up added keys waits for nobody") {
  AddingFixture fixture;
  const Identity first = fixture.add(fixture.added, 0).value();
  REQUIRE(fixture.ready(first, fixture.added).ok());
  auto start = fixture.start(first, milliseconds(10'000));
  fixture.time_ms += 10'000;
  fixture.table.life.end_late_starts();
  CHECK(start.get().code() == Code::kDeadlineExceeded);
  const std::string late = "job \"demo+1\": it did not start within 10000 ms";
  CHECK_THAT(fixture.add(fixture.added, 1).error().message(), Contains(late));
  CHECK(fixture.state() == JobState::kRunning);
}

TEST_CASE("added keys fail with their job, and wait for nobody who has left it") {
  for (const bool leaves : {true, false}) {
    AddingFixture fixture;
    const Identity first = fixture.add(fixture.added, 0).value();
    if (leaves) {
      REQUIRE(fixture.table.members.leave(fixture.members[2]).ok());
      CHECK(fixture.state() == JobState::kRunning);
    } else {
      fixture.table.members.on_lost(fixture.members[0].job_id, 2, "its connection closed");
      CHECK(fixture.state() == JobState::kFailed);
    }
    // Nor is the job made anew by who comes later.
    CHECK_THAT(fixture.add(fixture.added, 1).error().message(), Contains("worker 2"));
    CHECK(fixture.state("demo+1") == JobState::kFailed);
    CHECK_THAT(fixture.reason("demo+1"), Contains("worker 2"));
    CHECK_FALSE(fixture.table.members.heartbeat(first)->is_live);
  }
}

TEST_CASE("added keys that are all there stay when a worker leaves, for it leaves them itself") {
  AddingFixture fixture;
  fixture.add_all();
  REQUIRE(fixture.table.members.leave(fixture.members[2]).ok());
  CHECK(fixture.state("demo+1") == JobState::kRunning);
}

TEST_CASE("added keys are closed with their job, not without it") {
  AddingFixture fixture;
  fixture.add_all();
  const Status refused = fixture.table.life.close("demo+1");
  CHECK(refused.code() == Code::kFailedPrecondition);
  CHECK_THAT(refused.message(), Contains("\"demo+1\"") && Contains("close job \"demo\""));
  CHECK(fixture.state("demo+1") == JobState::kRunning);
  REQUIRE(fixture.table.life.close("demo").ok());
  CHECK(fixture.state() == JobState::kFailed);
  CHECK(fixture.state("demo+1") == JobState::kFailed);
  CHECK_THAT(fixture.reason("demo+1"), Contains("closed by an administrator"));
}

TEST_CASE("added keys whose job is over can be closed") {
  AddingFixture fixture;
  fixture.add_all();
  for (const Identity& member : fixture.members) {
    REQUIRE(fixture.table.members.leave(member).ok());
  }
  REQUIRE(fixture.state() == JobState::kEnded);
  CHECK(fixture.table.life.close("demo+1").ok());
  CHECK(fixture.state("demo+1") == JobState::kFailed);
}

TEST_CASE("a drain has a snapshot of added keys before their job's, and both run till then") {
  std::vector<std::string> saved;
  AddingFixture* drained = nullptr;
  AddingFixture fixture([&](const JobView& view) {
    saved.push_back(view.spec->name);
    CHECK(drained->state(view.spec->name) == JobState::kRunning);
    CHECK(drained->state() == JobState::kRunning);
  });
  drained = &fixture;
  fixture.add_all();
  fixture.added.name = "demo+2";
  fixture.add_all();
  fixture.table.drain(milliseconds(1000), /*snapshots=*/true);
  fixture.time_ms += 1000;
  fixture.table.reap();
  CHECK(saved == std::vector<std::string>{"demo+1", "demo+2", "demo"});
  for (const std::string& name : saved) {
    CHECK(fixture.state(name) == JobState::kFailed);
    CHECK_THAT(fixture.reason(name), Contains("the server was drained"));
  }
}

TEST_CASE("keys are added to no job that is not there, and to no other tenant's") {
  AddingFixture fixture;
  CHECK_THAT(fixture.add(fixture.added, 0, "red").error().message(), Contains("base: job id"));
  fixture.members[0].job_id += 1000;
  CHECK_THAT(fixture.add(fixture.added, 0).error().message(), Contains("base: job id"));
}

TEST_CASE("who is no member can neither add keys nor have those of others refused") {
  AddingFixture fixture;
  const Identity first = fixture.add(fixture.added, 0).value();
  fixture.members[0].secret[0] ^= 1;
  JobSpec wrong = fixture.added;
  wrong.keys[0].elements = 0;
  CHECK_FALSE(fixture.add(wrong, 1).has_value());
  CHECK_THAT(fixture.add(fixture.added, 1).error().message(), Contains("base: the secret is not"));
  CHECK(fixture.table.members.heartbeat(first)->is_live);
  fixture.members[0].secret[0] ^= 1;
  CHECK(fixture.add(fixture.added, 1).has_value());
}

TEST_CASE("a job of the name that added keys have is neither joined by them nor joins them") {
  AddingFixture fixture;
  const auto join_plainly = [&](const std::string& name) {
    return fixture.table.members.join(
        {.spec = std::make_shared<const JobSpec>(spec_of(3, name)), .host = "other"});
  };
  REQUIRE(join_plainly("demo+1").has_value());
  CHECK_THAT(fixture.add(fixture.added, 0).error().message(), Contains("lives already"));
  fixture.added = spec_of(3, "demo+2");
  REQUIRE(fixture.add(fixture.added, 0).has_value());
  CHECK_THAT(join_plainly("demo+2").error().message(), Contains("lives already"));
  CHECK(fixture.state() == JobState::kRunning);
}

TEST_CASE("a job takes workers of one run, and those that say none") {
  JobTableFixture f;
  const auto join = [&](const std::string& run, std::int32_t index = -1) {
    return f.table.members.join({.spec = std::make_shared<const JobSpec>(spec_of(3)),
                                 .worker_index = index,
                                 .host = "host1",
                                 .process_id = 77,
                                 .run = run});
  };
  SECTION("the run of a join that is refused is not the job's") {
    REQUIRE(join("", 0));
    REQUIRE_FALSE(join("second", 0));
    CHECK(join("first").value().worker == 1);
    CHECK_FALSE(join("second"));
    return;
  }
  REQUIRE(join("first"));
  const auto other = join("second");
  REQUIRE_FALSE(other);
  CHECK(other.error().code() == Code::kAlreadyExists);
  CHECK_THAT(other.error().message(), Contains("another run's, of which is worker 0 (host host1"));
  CHECK(join("").value().worker == 1);
  CHECK(join("first").value().worker == 2);
}

}  // namespace phub::testing
