// Jobs of several racks in the job table: leaving and failing in every state.
#include <catch2/catch.hpp>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/support/server/racks/rack_fixture.h"

namespace phub::testing {
namespace {

using Catch::Matchers::Contains;

TEST_CASE("a rack that leaves while the job waits makes room, or ends it") {
  RackFixture f;
  const Identity worker = f.join("").value();
  const Identity early = f.join("a").value();
  SECTION("without connections") {
    CHECK(f.table.members.leave(early).ok());
    CHECK(f.state() == JobState::kWaiting);
    CHECK(f.join("a", 8));
  }
  SECTION("with connections") {
    REQUIRE(f.ready(worker).ok());
    f.connect(early);
    CHECK(f.table.members.leave(early).ok());
    CHECK(f.reason() == "rack a (host host, pid 7) left before the job started");
  }
  SECTION("with a reason") {
    CHECK(f.table.members.leave(early, "it has no memory").ok());
    CHECK(f.reason() == "rack a: it has no memory");
    CHECK(f.links.asked.back() == "close rack a: it has no memory");
  }
  CHECK(f.table.members.heartbeat(worker)->is_live == (f.state() == JobState::kWaiting));
}

TEST_CASE("a job of racks ends when its workers and all racks have left") {
  RackFixture f;
  const auto members = f.running();
  REQUIRE(f.table.members.leave(members[2]).ok());
  CHECK(f.table.members.heartbeat(members[0])->workers_left == std::vector<std::uint32_t>{0});
  REQUIRE(f.table.members.leave(members[0]).ok());
  CHECK(f.links.asked.back() == "complete");
  REQUIRE(f.table.members.leave(members[1]).ok());
  CHECK(f.links.asked.back() == "close ");
  CHECK(f.state() == JobState::kRunning);
  REQUIRE(f.table.members.leave(members[3]).ok());
  CHECK(f.state() == JobState::kEnded);
}

TEST_CASE("who joins the next job of a name waits until the racks of the last one have left") {
  for (int run = 0; run < 20; ++run) {
    RackFixture fixture;
    const std::vector<Identity> members = fixture.running();
    for (const std::size_t i : {0U, 1U}) REQUIRE(fixture.table.members.leave(members[i]).ok());
    fixture.spec.chunk_bytes *= 2;  // another job, which members of the last one would refuse
    std::thread leaving([&] {
      for (const std::size_t i : {2U, 3U})
        static_cast<void>(fixture.table.members.leave(members[i]));
    });
    const auto next = fixture.join("");
    leaving.join();
    REQUIRE(next);
    CHECK(next->job_id != members[0].job_id);
  }
}

TEST_CASE("a rack that fails while the job runs ends it with its reason") {
  RackFixture f;
  const auto members = f.running();
  REQUIRE(f.table.members.leave(members[3], "worker 3 was lost").ok());
  CHECK(f.state() == JobState::kFailed);
  CHECK(f.reason() == "rack c: worker 3 was lost");
  f.table.members.on_unlinked(members[0].job_id, "too late");
  CHECK(f.reason() == "rack c: worker 3 was lost");
}

TEST_CASE("a rack's connection that closes is asked about, and its job fails by what comes of it") {
  RackFixture f;
  const auto members = f.running();
  f.table.members.on_lost(members[2].job_id, members[2].worker, "closed");
  CHECK(f.links.asked.back() == "diagnose a: closed");
  CHECK(f.state() == JobState::kRunning);
  CHECK(f.table.members.heartbeat(members[2])->is_live);  // it may ask, too: nobody knows why yet
  f.table.members.on_unlinked(members[0].job_id, "rack a is gone");
  CHECK(f.table.members.heartbeat(members[2])->reason == "rack a is gone");
  CHECK(f.reason() == "rack a is gone");
}

TEST_CASE("of a job whose workers here have left a rack that is gone is not waited for") {
  RackFixture f;
  const auto members = f.running();
  const auto lose = [&](const Identity& rack) {
    f.table.members.on_lost(rack.job_id, rack.worker, "closed");
  };
  const bool is_early = GENERATE(false, true);
  if (is_early) lose(members[2]);
  for (const std::size_t i : {0U, 1U}) REQUIRE(f.table.members.leave(members[i]).ok());
  if (!is_early) lose(members[2]);
  CHECK(f.links.asked.back() == "close ");
  CHECK(f.state() == JobState::kRunning);
  SECTION("the next of its name begins when the others have left") {
    REQUIRE(f.table.members.leave(members[3]).ok());
  }
  SECTION("or are gone too") { lose(members[3]); }
  CHECK(f.state() == JobState::kEnded);
  CHECK(f.table.members.leave(members[2]).ok());
  CHECK(f.join("").value().job_id != members[0].job_id);
}

TEST_CASE("a rack that is lost beside a job that finishes here is told why") {
  RackFixture f;
  const auto members = f.running();
  for (const std::size_t i : {0U, 1U}) REQUIRE(f.table.members.leave(members[i]).ok());
  SECTION("by its connection") {
    f.table.members.on_lost(members[2].job_id, members[2].worker, "closed");
    f.table.members.on_lost(members[2].job_id, members[2].worker, "closed on another core");
  }
  SECTION("by its silence") {
    f.table.members.on_rack_lost(members[2].job_id, "a", "closed");
    f.table.members.on_rack_lost(members[2].job_id, "a", "silent");
  }
  const auto beat = f.table.members.heartbeat(members[2]);
  CHECK_FALSE(beat->is_live);
  CHECK(beat->reason == "this rack was lost (closed), and its job goes on without it");
  CHECK(f.table.members.heartbeat(members[3])->is_live);
}

TEST_CASE("a member that takes this server for another of its rack is refused, and fixes nothing") {
  RackFixture f;
  const Identity wrong = f.join("a").value();
  f.links.place = {Code::kFailedPrecondition, "it is server 1"};
  CHECK(f.ready(wrong).message() == "it is server 1");
  CHECK(f.links.asked.empty());
  CHECK_FALSE(f.data_plane.layout(wrong.job_id));
  f.links.place = {};
  CHECK(f.ready(f.join("").value()).ok());
}

TEST_CASE("links for which there is no thread are opened by the next member that is ready") {
  RackFixture f;
  const Identity worker = f.join("").value();
  f.links.opened = {Code::kResourceExhausted, "no thread"};
  CHECK(f.ready(worker).message() == "no thread");
  REQUIRE(f.ready(worker).ok());
  REQUIRE(f.ready(f.join("a").value()).ok());
  CHECK(f.links.asked == Words{"open demo", "open demo"});
}

TEST_CASE("a rack that beats too often is named as what it is") {
  RackFixture f;
  const Identity rack = f.join("c").value();
  auto beat = f.table.members.heartbeat(rack);
  for (int i = 0; beat && i < 100'000; ++i) beat = f.table.members.heartbeat(rack);
  REQUIRE_FALSE(beat);
  CHECK_THAT(beat.error().message(),
             Contains("rack c (host host, pid 7) of job \"demo\" has sent 500 heartbeats"));
}

TEST_CASE("another tenant's rack joins a job of its own") {
  TenantsInMemory tenants;
  REQUIRE(tenants.create("other", {}));
  RackFixture f(&tenants);
  const Identity ours = f.join("a").value();
  const Identity theirs = f.join("a", 7, "other").value();
  CHECK(theirs.job_id != ours.job_id);
  REQUIRE(f.table.members.leave(theirs, "it is wild").ok());
  CHECK(f.table.members.heartbeat(ours)->is_live);
}

}  // namespace
}  // namespace phub::testing
