// Jobs of several racks in the job table: who may join as a rack, and when.
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

TEST_CASE("a job of a rack that this server never knows is refused when it is made, and joined") {
  RackFixture f;
  f.spec.racks.back().name = "zz";
  CHECK(f.table.life.create(f.spec, std::string(kDefaultTenant)).error().message() == "no rack zz");
  CHECK(f.join("").error().message() == "no rack zz");
  CHECK(f.table.views.list().empty());
}

TEST_CASE("a job of racks runs when its own workers, the links and all racks are there") {
  RackFixture f;
  f.running();
  CHECK(f.links.asked == Words{"open demo", "complete"});
}

TEST_CASE("who is none of a job's other racks does not join as one") {
  RackFixture f;
  CHECK_THAT(f.join("b").error().message(), Contains("\"b\" is no other rack of job \"demo\""));
  CHECK_THAT(f.join("x").error().message(), Contains("\"x\" is no other rack of job \"demo\""));
  REQUIRE(f.join("a"));
  const Status second = f.join("a", 8).error();
  CHECK(second.code() == Code::kAlreadyExists);
  CHECK_THAT(second.message(),
             Contains("rack a (host host, pid 7) has joined job \"demo\" already"));
}

TEST_CASE("a share of a rack's sums that is none is refused") {
  const std::vector<std::pair<std::string, std::function<void(JobSpec&)>>> cases = {
      {"rack_compress.density: 1.5 is not above 0",
       [](JobSpec& s) { s.rack_compress.density = 1.5F; }},
      {"rack_compress.density: nan is not above 0",
       [](JobSpec& s) { s.rack_compress.density = std::numeric_limits<float>::quiet_NaN(); }},
      {"rack_compress.density: 0 is not above 0",
       [](JobSpec& s) { s.rack_compress = {.error_feedback = false}; }}};
  for (const auto& [refusal, change] : cases) {
    RackFixture f;
    f.spec.rack_compress.density = 0.01F;
    change(f.spec);
    CHECK_THAT(f.join("").error().message(), Contains(refusal));
  }
  RackFixture f;
  f.spec.rack_compress.density = 0.01F;
  CHECK(f.join(""));
}

// Each is another job than that of the rack of another shape; the words of an option and its field.
const std::vector<std::pair<std::string, std::function<void(JobSpec&)>>> kOtherJobs = {
    {"rack_shape is spread in the job but chain in this join",
     [](JobSpec& s) { s.rack_shape = RackShape::kChain; }},
    {"rack_wire_type is fp32 in the job but bf16 in this join",
     [](JobSpec& s) { s.rack_wire_type = DataType::kBfloat16; }},
    {"rack_compress.density is 0 in the job but 0.5 in this join",
     [](JobSpec& s) { s.rack_compress.density = 0.5F; }},
    {"rule is mean in the job but sum in this join", [](JobSpec& s) { s.rule = RuleKind::kSum; }},
    {"racks is a:1,b:2,c:1 in the job but a:2,b:1,c:1 in this join",
     [](JobSpec& s) {
       s.racks = {{"a", 2}, {"b", 1}, {"c", 1}};
     }},
    {"keys[0] (\"a\") elements is 1000 in the job but 999 in this join",
     [](JobSpec& s) { s.keys[0].elements = 999; }}};

TEST_CASE(
    "the first of a rack that would make another job of it ends it, in all racks, and says why") {
  const auto& [difference, change] = GENERATE(from_range(kOtherJobs));
  RackFixture f;
  const bool is_worker = GENERATE(true, false);
  const Identity there = f.join(is_worker ? "a" : "").value();
  change(f.spec);
  const Status refused = f.join(is_worker ? "" : "c", 8).error();
  CHECK_THAT(refused.message(), Contains("job \"demo\": " + difference));
  const auto beat = f.table.members.heartbeat(there);
  REQUIRE(beat);
  CHECK_FALSE(beat->is_live);
  CHECK_THAT(beat->reason, Contains(std::string(is_worker ? "a worker" : "rack c") +
                                    " (host host, pid 8) was refused: " + difference));
  CHECK(f.links.asked == Words{"close " + beat->reason});
  CHECK(f.join(is_worker ? "" : "c"));
}

TEST_CASE("who is refused ends no job that others of its rack have joined, nor one of one rack") {
  RackFixture f;
  SECTION("a worker beside another") {
    REQUIRE(f.join(""));
    f.spec.rule = RuleKind::kSum;
  }
  SECTION("a worker without racks") {
    REQUIRE(f.join("a"));
    f.spec.racks.clear();
  }
  CHECK_FALSE(f.join(""));
  CHECK(f.table.views.list().front().state == JobState::kWaiting);
}

TEST_CASE("who is refused ends no job that an administrator made, nor one that runs") {
  RackFixture f;
  SECTION("made") {
    REQUIRE(f.table.life.create(f.spec, std::string(kDefaultTenant)));
    f.spec.rule = RuleKind::kSum;
    CHECK_FALSE(f.join("a"));
    CHECK(f.state() == JobState::kWaiting);
  }
  SECTION("running") {
    f.running();
    f.spec.rule = RuleKind::kSum;
    CHECK_FALSE(f.join("a"));
    CHECK(f.state() == JobState::kRunning);
  }
}

TEST_CASE("racks pass on a planned end, and that all of their workers know its last step") {
  RackFixture f;
  const std::vector<Identity> members = f.running();
  f.links.asked.clear();
  f.table.members.on_end_planned(members[0].job_id, "rack a stops", 0);
  const auto beat = [&](const Identity& member, const EndWords& words = {}) {
    return f.table.members.heartbeat(member, false, words).value();
  };
  CHECK(beat(members[0]).ending == "rack a stops");
  CHECK(beat(members[0]).last_step == 0);
  f.table.members.on_end_planned(members[0].job_id, "rack a stops", 9);
  CHECK(beat(members[0], {.known_last_step = 9}).last_step == 9);
  CHECK(f.links.asked.empty());
  beat(members[1], {.known_last_step = 9});
  beat(members[1], {.known_last_step = 9});
  CHECK(f.links.asked == Words{"know end 9"});
}

TEST_CASE("a rack whose join's reply was lost joins again, until it is heard of") {
  RackFixture f;
  const Identity lost = f.join("a").value();
  const Identity again = f.join("a").value();
  CHECK(f.table.members.heartbeat(lost).error().code() == Code::kPermissionDenied);
  SECTION("by a heartbeat") { REQUIRE(f.table.members.heartbeat(again)); }
  SECTION("by its ready") { REQUIRE(f.ready(again).code() == Code::kUnavailable); }
  CHECK(f.join("a").error().code() == Code::kAlreadyExists);
}

TEST_CASE("a rack is ready when a worker of this rack is, and may have other cores") {
  RackFixture f;
  const Identity rack = f.join("a").value();
  const Status early = f.ready(rack, {3});
  CHECK(early.code() == Code::kUnavailable);
  CHECK_THAT(early.message(), Contains("none of that rack's own workers is ready yet"));
  CHECK_FALSE(f.data_plane.layout(rack.job_id));
  REQUIRE(f.ready(f.join("").value()).ok());
  REQUIRE(f.ready(rack, {3}).ok());
  CHECK(f.data_plane.known_cores == std::map<std::uint32_t, std::uint32_t>{{0, 3}});
}

TEST_CASE("a rack with other servers, or that plans otherwise, is refused") {
  RackFixture f;
  REQUIRE(f.ready(f.join("").value()).ok());
  const Identity rack = f.join("a").value();
  CHECK_THAT(f.ready(rack, {2, 2}).message(),
             Contains("[2], server_index 0 here but cores_per_server [2, 2], server_index 0") &&
                 Contains("racks have as many servers"));
  CHECK_THAT(ready_now(f.table, rack, {.cores_per_server = {3}}, 7).message(),
             Contains("in that rack; are both the same version of PHub?"));
}

TEST_CASE("a rack's join that is executed behind a later one takes nothing from it") {
  RackFixture f;
  const auto join = [&f](std::uint64_t attempt) {
    return f.table.members.join({.spec = std::make_shared<const JobSpec>(f.spec),
                                 .host = "host",
                                 .process_id = 7,
                                 .rack = "a",
                                 .attempt = attempt});
  };
  const Identity answered = join(2).value();
  CHECK(join(1).error().code() == Code::kAlreadyExists);
  CHECK(f.table.members.heartbeat(answered));
}

TEST_CASE("a join that was given up makes no job and no member") {
  RackFixture f;
  JoinArguments late{.spec = std::make_shared<const JobSpec>(f.spec),
                     .host = "host",
                     .is_given_up = [] { return true; }};
  CHECK(f.table.members.join(late).error().code() == Code::kAborted);
  CHECK(f.table.views.list().empty());
  const Identity first = f.join("").value();
  CHECK(f.table.members.join(late).error().code() == Code::kAborted);
  CHECK(f.table.views.inspect("demo", 0).value().members.size() == 1);
  CHECK(f.table.members.heartbeat(first));
}

TEST_CASE("a join whose reply did not arrive makes room, unless its member is heard of") {
  RackFixture f;
  const Identity worker = f.join("").value();
  const Identity unknown = f.join("").value();
  f.table.members.withdraw(unknown);
  CHECK(f.table.members.heartbeat(unknown).error().code() == Code::kPermissionDenied);
  CHECK(f.join("").value().worker == unknown.worker);
  REQUIRE(f.table.members.heartbeat(worker));
  f.table.members.withdraw(worker);
  CHECK(f.table.members.heartbeat(worker));
}

}  // namespace
}  // namespace phub::testing
