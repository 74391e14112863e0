// Jobs of several racks in the job table: who may join as a rack, and leaving in every state.
#include <catch2/catch.hpp>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "server/job/rack_links.h"
#include "server/jobs/table.h"
#include "tests/support/server/fake_data_plane.h"
#include "tests/support/server/job_table_fixture.h"

namespace phub::testing {
namespace {

using Catch::Matchers::Contains;
using Words = std::vector<std::string>;

// What the job table asked for, in order.
struct RecordedLinks final : RackLinks {
  Status check_racks(const std::vector<RackSpec>& racks) const override {
    return racks.back().name == "zz" ? Status(Code::kInvalidArgument, "no rack zz") : Status();
  }
  Status check_place(std::uint32_t server_index, std::size_t servers) const override {
    return server_index < servers ? place : Status(Code::kInternal, "no place at all");
  }
  Status open(const LinkedRack& job) override {
    asked.push_back("open " + job.spec->name);
    return std::exchange(opened, Status());
  }
  Result<std::unique_ptr<RackSnapshots>> snapshot(std::uint64_t, std::uint64_t,
                                                  std::chrono::milliseconds) override {
    return Status(Code::kFailedPrecondition, "no links");
  }
  void complete(std::uint64_t /*job_id*/) override { asked.push_back("complete"); }
  void know_end(std::uint64_t /*job_id*/, std::uint64_t last_step) override {
    asked.push_back("know end " + std::to_string(last_step));
  }
  void diagnose(std::uint64_t /*job_id*/, const std::string& rack,
                const std::string& suspicion) override {
    asked.push_back("diagnose " + rack + ": " + suspicion);
  }
  void close(std::uint64_t /*job_id*/, const std::string& reason) override {
    asked.push_back("close " + reason);
  }
  Words asked;
  Status place;   // what check_place returns
  Status opened;  // what the next open returns
};

// The server of rack b of a job of racks a, b and c.
struct RackFixture {
  RecordedLinks links;
  FakeDataPlane data_plane{kCores};
  JobTable table;
  JobSpec spec = spec_of(4);
  explicit RackFixture(const TenantDirectory* tenants = nullptr)
      : table({.tenants = tenants, .rack = "b", .links = &links}) {
    spdlog::set_level(spdlog::level::off);
    spec.racks = {{"a", 1}, {"b", 2}, {"c", 1}};
    table.attach(data_plane);
  }

  Result<Identity> join(const std::string& rack, std::uint32_t process_id = 7,
                        const std::string& tenant = std::string(kDefaultTenant)) {
    return table.members.join({.spec = std::make_shared<const JobSpec>(spec),
                               .tenant = tenant,
                               .host = "host",
                               .process_id = process_id,
                               .rack = rack});
  }
  Status ready(const Identity& identity) {
    const auto load = table.views.core_load_bytes(identity.job_id);
    return ready_now(table, identity, {.cores_per_server = {kCores}, .core_load_bytes = load},
                     JobTableFixture::hash_of(spec, {kCores}, load));
  }
  void connect(const Identity& identity) {
    REQUIRE(ready(identity).ok());
    for (std::uint32_t core = 0; core < kCores; ++core) {
      table.members.on_connected(identity.job_id, identity.worker, core, "tcp");
    }
  }
  JobState state() { return table.views.inspect("demo", 0).value().state; }
  std::string reason() { return table.views.inspect("demo", 0).value().reason; }

  // The workers of this rack, and the racks a and c, of a job that runs.
  std::vector<Identity> running() {
    std::vector<Identity> members;
    for (const char* rack : {"", "", "a", "c"}) {
      members.push_back(join(rack).value());
      connect(members.back());
    }
    table.members.on_linked(members[0].job_id);
    for (std::size_t i = 2; i < 4; ++i) {
      REQUIRE(table.members.heartbeat(members[i], /*rack_is_complete=*/true));
    }
    REQUIRE(state() == JobState::kRunning);
    return members;
  }
};

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

TEST_CASE("what goes from rack to rack is refused where it means nothing, or contradicts the job") {
  const std::vector<std::pair<std::string, std::function<void(JobSpec&)>>> cases = {
      {"rack_compress.density: 1.5 is not above 0",
       [](JobSpec& s) { s.rack_compress.density = 1.5F; }},
      {"rack_compress.density: nan is not above 0",
       [](JobSpec& s) { s.rack_compress.density = std::numeric_limits<float>::quiet_NaN(); }},
      {"rack_compress.density: 0 is not above 0",
       [](JobSpec& s) { s.rack_compress = {.error_feedback = false}; }},
      {"rack_compress: means nothing without racks", [](JobSpec& s) { s.racks.clear(); }},
      {"rack_wire_type: bf16 contradicts rack_compress",
       [](JobSpec& s) { s.rack_wire_type = DataType::kBfloat16; }},
      {"rack_compress: leaves rule lars without", [](JobSpec& s) { s.rule = RuleKind::kLars; }},
      {"rack_compress: leaves rule lamb without", [](JobSpec& s) { s.rule = RuleKind::kLamb; }},
      {"rack_compress: is for gradients, and rule elastic",
       [](JobSpec& s) { s.rule = RuleKind::kElastic; }},
      {"rack_compress: keeps parts of sums for later rounds, and loss_scaling static",
       [](JobSpec& s) {
         s.rule = RuleKind::kSgd;
         s.loss_scale.kind = LossScaling::kStatic;
       }},
      {"rounds.quorum: contradicts racks", [](JobSpec& s) { s.rounds.quorum = 2; }},
      {"clip_norm: the norm of all keys is known within one rack",
       [](JobSpec& s) {
         s.rule = RuleKind::kSgd;
         s.clip_norm = 1.0F;
       }},
      {"encoding: sparse is for jobs of one rack",
       [](JobSpec& s) { s.encoding = Encoding::kSparse; }}};
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
  SECTION("by its ready") { REQUIRE(f.ready(again).ok()); }
  CHECK(f.join("a").error().code() == Code::kAlreadyExists);
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
  f.table.members.on_unlinked(members[0].job_id, "rack a is gone");
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
