#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <cstdint>
#include <future>
#include <string>

#include "common/job/check.h"
#include "server/jobs/table.h"
#include "tests/support/server/job_table_fixture.h"

namespace phub::testing {
namespace {

using Catch::Matchers::Contains;

TEST_CASE("workers that do not ask for an index get the lowest free one") {
  JobTableFixture f;
  CHECK(f.join(spec_of(3), 1).value().worker == 1);
  CHECK(f.join(spec_of(3)).value().worker == 0);
  CHECK(f.join(spec_of(3)).value().worker == 2);
}

TEST_CASE("every member has a secret of its own") {
  JobTableFixture f;
  const Identity first = f.join(spec_of(2)).value();
  const Identity second = f.join(spec_of(2)).value();
  CHECK(first.secret != second.secret);
  CHECK(first.secret != Secret{});
}

TEST_CASE("a worker index that is taken or out of range is refused, naming who has it") {
  JobTableFixture f;
  REQUIRE(f.join(spec_of(2), 1));
  const auto taken = f.join(spec_of(2), 1);
  REQUIRE_FALSE(taken);
  CHECK(taken.error().code() == Code::kAlreadyExists);
  CHECK_THAT(taken.error().message(), Contains("worker 1 (host host1, pid 77)"));
  CHECK(f.join(spec_of(2), 2).error().code() == Code::kInvalidArgument);
  CHECK(f.join(spec_of(2), -2).error().code() == Code::kInvalidArgument);
}

TEST_CASE("a job that has all its workers takes no more") {
  JobTableFixture f;
  REQUIRE(f.join(spec_of(1)));
  const auto extra = f.join(spec_of(1));
  REQUIRE_FALSE(extra);
  CHECK(extra.error().code() == Code::kAlreadyExists);
  CHECK_THAT(extra.error().message(), Contains("all of its 1 workers"));
}

TEST_CASE("a join whose spec differs is refused, naming the field and both values") {
  struct Case {
    const char* field;
    const char* existing;
    const char* joining;
    void (*change)(JobSpec&);
  };
  const Case cases[] = {
      {"workers", "2", "3", [](JobSpec& s) { s.workers = 3; }},
      {"wire_type", "fp32", "bf16", [](JobSpec& s) { s.wire_type = DataType::kBfloat16; }},
      {"rule", "nesterov", "sum", [](JobSpec& s) { s.rule = RuleKind::kSum; }},
      {"order", "deterministic", "arrival", [](JobSpec& s) { s.deterministic = false; }},
      {"chunk_bytes", "32768", "65536", [](JobSpec& s) { s.chunk_bytes = 65536; }},
      {"learning_rate", "0", "0.5", [](JobSpec& s) { s.hyper.learning_rate = 0.5F; }},
      {"momentum", "0", "0.5", [](JobSpec& s) { s.hyper.momentum = 0.5F; }},
      {"number of keys", "2", "1", [](JobSpec& s) { s.keys.pop_back(); }},
      {"keys[1] (\"b\") name", "b", "c", [](JobSpec& s) { s.keys[1].name = "c"; }},
      {"keys[0]", "1000", "1001", [](JobSpec& s) { s.keys[0].elements = 1001; }},
      {"weight_decay", "0", "0.25", [](JobSpec& s) { s.keys[0].weight_decay = 0.25F; }},
  };
  JobTableFixture f;
  JobSpec spec = spec_of(2);
  spec.rule = RuleKind::kNesterov;
  REQUIRE(f.join(spec));
  for (const Case& c : cases) {
    JobSpec other = spec;
    c.change(other);
    const auto joined = f.join(other);
    INFO(c.field);
    REQUIRE_FALSE(joined);
    CHECK(joined.error().code() == Code::kInvalidArgument);
    CHECK_THAT(joined.error().message(), Contains(c.field) && Contains(c.existing) &&
                                             Contains(c.joining) && Contains("demo"));
  }
}

TEST_CASE("a spec with impossible values is refused, naming the field") {
  struct Case {
    const char* field;
    void (*change)(JobSpec&);
  };
  const Case cases[] = {
      {"name:", [](JobSpec& s) { s.name = ""; }},
      {"name:", [](JobSpec& s) { s.name = std::string(257, 'x'); }},
      {"name:", [](JobSpec& s) { s.name = "a\nb"; }},
      {"workers:", [](JobSpec& s) { s.workers = 0; }},
      {"workers:", [](JobSpec& s) { s.workers = 1025; }},
      {"chunk_bytes:", [](JobSpec& s) { s.chunk_bytes = 1000; }},
      {"chunk_bytes:", [](JobSpec& s) { s.chunk_bytes = 2048; }},
      {"chunk_bytes:", [](JobSpec& s) { s.chunk_bytes = 8 << 20; }},
      {"momentum:", [](JobSpec& s) { s.hyper.momentum = 1.0F; }},
      {"learning_rate:", [](JobSpec& s) { s.hyper.learning_rate = 1.0F / 0.0F; }},
      {"rounds.quorum: 2 is not below workers", [](JobSpec& s) { s.rounds.quorum = 2; }},
      {"rounds.grace_ms: 600001",
       [](JobSpec& s) {
         s.deterministic = false;
         s.rounds = {.quorum = 1, .grace_ms = kGraceMsMax + 1};
       }},
      {"rounds.patience_ms: 0",
       [](JobSpec& s) {
         s.deterministic = false;
         s.rounds = {.quorum = 1, .patience_ms = 0};
       }},
      {"racks[1].name: \"../b\" is no name of a rack",
       [](JobSpec& s) {
         s.racks = {{"a", 1}, {"../b", s.workers - 1}};
       }},
      {"rack_shape: with nested all racks' names have as many levels",
       [](JobSpec& s) {
         s.racks = {{"site1/a", 1}, {"b", s.workers - 1}};
         s.rack_shape = RackShape::kNested;
       }},
      {"keys", [](JobSpec& s) { s.keys.clear(); }},
      {"keys[1].name", [](JobSpec& s) { s.keys[1].name = "a"; }},
      {"keys[0].elements", [](JobSpec& s) { s.keys[0].elements = 0; }},
      {"keys[0].weight_decay", [](JobSpec& s) { s.keys[0].weight_decay = -1.0F; }},
      {"chunk_bytes:",
       [](JobSpec& s) {
         s.chunk_bytes = 4096;
         s.keys[0].elements = std::uint64_t{1} << 37;
       }},
      {"keys", [](JobSpec& s) { s.keys.assign(1'000'001, {.name = "k", .elements = 1}); }},
  };
  JobTableFixture f;
  for (const Case& c : cases) {
    JobSpec spec = spec_of(2);
    c.change(spec);
    const auto joined = f.join(spec);
    INFO(c.field);
    REQUIRE_FALSE(joined);
    CHECK(joined.error().code() == Code::kInvalidArgument);
    CHECK_THAT(joined.error().message(), Contains(c.field));
  }
}

TEST_CASE("who cuts a model into too many chunks is told what chunks are enough") {
  JobSpec spec = spec_of(2);
  spec.keys = {{.name = "w", .elements = 100'000'000'000}};
  CHECK(validate(spec).ok());  // 400 GB in chunks of 32 KiB
  spec.chunk_bytes = 4096;
  CHECK_THAT(validate(spec).message(), Contains("97656250 chunks, at most 16777214 are allowed; "
                                                "32768 is enough"));
  spec.chunk_bytes = 32768;
  CHECK(validate(spec).ok());
}

TEST_CASE("the first ready makes the job on the data plane and later ones agree with it") {
  JobTableFixture f;
  JobSpec spec = spec_of(2);
  spec.rule = RuleKind::kNesterov;
  spec.keys[1].weight_decay = 0.5F;
  const Identity first = f.join(spec).value();
  const Identity second = f.join(spec).value();
  REQUIRE(f.ready(first, spec).ok());
  const auto layout = f.data_plane.layout(first.job_id);
  REQUIRE(layout);
  CHECK(layout->workers == 2);
  CHECK(layout->rule == RuleKind::kNesterov);
  CHECK(layout->hyper.gradient_scale == 0.5F);
  CHECK(layout->weight_decay == std::vector<float>{0.0F, 0.5F});
  CHECK(layout->plan->hash == JobTableFixture::hash_of(spec, {kCores}));
  CHECK(f.ready(second, spec).ok());
}

TEST_CASE("the sum is not scaled and the mean is scaled by one over the workers") {
  JobSpec spec = spec_of(4);
  CHECK(gradient_scale_of(spec) == 0.25F);
  spec.rule = RuleKind::kSum;
  CHECK(gradient_scale_of(spec) == 1.0F);
  spec.rule = RuleKind::kSgd;
  spec.hyper.gradient_scale = 0.125F;
  CHECK(gradient_scale_of(spec) == 0.125F);
}

TEST_CASE("a different plan hash is refused with both hashes and the next worker may still start") {
  JobTableFixture f;
  const JobSpec spec = spec_of(2);
  const Identity first = f.join(spec).value();
  const Identity second = f.join(spec).value();
  const Status refused = ready_now(f.table, first, {.cores_per_server = {kCores}}, 0xabc);
  CHECK(refused.code() == Code::kFailedPrecondition);
  CHECK_THAT(refused.message(),
             Contains("0000000000000abc") &&
                 Contains(fmt::format("{:016x}", JobTableFixture::hash_of(spec, {2}))));
  CHECK_FALSE(f.data_plane.layout(first.job_id));
  REQUIRE(f.ready(second, spec).ok());
  CHECK(ready_now(f.table, first, {.cores_per_server = {kCores}}, 0xabc).code() ==
        Code::kFailedPrecondition);
}

TEST_CASE("a different topology is refused with both topologies") {
  JobTableFixture f;
  const JobSpec spec = spec_of(2);
  const Identity first = f.join(spec).value();
  const Identity second = f.join(spec).value();
  REQUIRE(f.ready(first, spec).ok());
  const Status refused =
      ready_now(f.table, second, {.cores_per_server = {1, kCores}, .server_index = 1}, 1);
  CHECK(refused.code() == Code::kFailedPrecondition);
  CHECK_THAT(refused.message(),
             Contains("[2], server_index 0") && Contains("[1, 2], server_index 1"));
}

TEST_CASE("a topology that is wrong about this server, or impossible, is refused") {
  JobTableFixture f;
  const Identity member = f.join(spec_of(1)).value();
  CHECK(ready_now(f.table, member, {.cores_per_server = {3}}, 1).code() ==
        Code::kFailedPrecondition);
  CHECK(ready_now(f.table, member, {.cores_per_server = {}}, 1).code() == Code::kInvalidArgument);
  CHECK(ready_now(f.table, member, {.cores_per_server = {0}}, 1).code() == Code::kInvalidArgument);
  CHECK(ready_now(f.table, member, {.cores_per_server = {1u << 30}}, 1).code() ==
        Code::kInvalidArgument);
  CHECK(ready_now(f.table, member, {.cores_per_server = {2}, .server_index = 1}, 1).code() ==
        Code::kInvalidArgument);
}

TEST_CASE("a data plane without memory refuses the job with its own words") {
  JobTableFixture f;
  f.data_plane.refuse_next({Code::kResourceExhausted, "needs 3 GiB of 2 GiB"});
  const JobSpec spec = spec_of(1);
  const Identity member = f.join(spec).value();
  const Status refused = f.ready(member, spec);
  CHECK(refused.code() == Code::kResourceExhausted);
  CHECK_THAT(refused.message(), Contains("needs 3 GiB of 2 GiB"));
  CHECK(f.ready(member, spec).ok());
}

TEST_CASE("a job runs once every worker is connected to every core") {
  JobTableFixture f;
  const JobSpec spec = spec_of(2);
  const Identity first = f.join(spec).value();
  const Identity second = f.join(spec).value();
  REQUIRE(f.ready(first, spec).ok());
  REQUIRE(f.ready(second, spec).ok());
  f.connect(first);
  f.table.members.on_connected(second.job_id, second.worker, 0, "tcp");
  f.table.members.on_connected(second.job_id, second.worker, 0, "tcp");
  CHECK(f.state() == JobState::kWaiting);
  auto started = f.start(first);
  CHECK_FALSE(has_reply(started));
  f.table.members.on_connected(second.job_id, second.worker, 1, "tcp");
  CHECK(f.state() == JobState::kRunning);
  CHECK(started.get().ok());
  CHECK(f.start(second).get().ok());
  const JobView view = f.table.views.inspect("demo", 0).value();
  CHECK(view.members[0].transport == "shm");
  CHECK(view.members[1].transport == "tcp");
}

TEST_CASE("a member that floods heartbeats is refused with the figures, and loses nothing by it") {
  JobTableFixture f;
  const auto members = f.running(2);
  int answered = 0;
  Status refused;
  for (int i = 0; i < 2000; ++i) {
    const auto beat = f.table.members.heartbeat(members[0]);
    answered += beat ? 1 : 0;
    if (!beat) refused = beat.error();
  }
  CHECK(answered == 500);
  CHECK(refused.code() == Code::kResourceExhausted);
  CHECK_THAT(refused.message(), Contains("worker 0 (host host-1, pid 77) of job \"demo\"") &&
                                    Contains("500") && Contains("110 a second"));
  CHECK(f.table.members.heartbeat(members[1])->is_live);
  // Its refused heartbeats are signs of life too, and its job goes on.
  for (int second = 0; second < 20; ++second) {
    f.time_ms += 1000;
    for (int i = 0; i < 300; ++i) static_cast<void>(f.table.members.heartbeat(members[0]));
    CHECK(f.table.members.heartbeat(members[1])->is_live);
    f.table.reap();
  }
  CHECK(f.state() == JobState::kRunning);
  CHECK_FALSE(f.table.members.heartbeat(members[0]));
  f.table.fail_all("the server was stopped");
  const auto told = f.table.members.heartbeat(members[0]);  // that much it is told all the same
  REQUIRE(told);
  CHECK(told->reason == "the server was stopped");
  CHECK_FALSE(f.table.members.heartbeat(members[0]));
}

TEST_CASE("a member that asks 50 times a second, as while it looks for a cause, is answered") {
  JobTableFixture f;
  const auto members = f.running(1);
  bool all_answered = true;
  for (int i = 0; i < 50 * 60; ++i) {
    f.time_ms += 20;
    all_answered = all_answered && f.table.members.heartbeat(members[0]);
  }
  CHECK(all_answered);
}

TEST_CASE("workers say alike what a job uses of its samples") {
  JobTableFixture f;
  const auto members = f.running(2);
  const SampleLedger ledger{.samples = 1000, .seed = 5, .used = 10, .per_round = 64};
  CHECK(f.table.note_samples(members[0], {}).code() == Code::kInvalidArgument);
  CHECK(f.table.note_samples(members[0], ledger).ok());
  CHECK(f.table.note_samples(members[1], ledger).ok());
  CHECK(f.table.views.samples(members[0].job_id) == ledger);
  SampleLedger other = ledger;
  other.used = 20;
  const Status refused = f.table.note_samples(members[1], other);
  CHECK(refused.code() == Code::kInvalidArgument);
  CHECK_THAT(refused.message(), Catch::Contains("worker 1") &&
                                    Catch::Contains("at position 20 after round 0, of a set") &&
                                    Catch::Contains("at position 10 after round 0, of a set") &&
                                    Catch::Contains("train.resume"));
  // Another size from a later round on, at the place where that is.
  other = {.samples = 1000, .seed = 5, .round = 3, .used = 10 + 3 * 64, .per_round = 32};
  CHECK(f.table.note_samples(members[1], other).ok());
  ++other.round;
  CHECK(f.table.note_samples(members[1], other).code() == Code::kInvalidArgument);
  other = {.samples = 1000, .seed = 5, .round = std::uint64_t{1} << 60};
  CHECK_THAT(f.table.note_samples(members[1], other).message(),
             Catch::Contains("samples: round") && Catch::Contains("at most"));
  Identity stranger = members[0];
  stranger.secret = {};
  CHECK(f.table.note_samples(stranger, ledger).code() == Code::kPermissionDenied);
}

TEST_CASE("workers that listen are told of each other, with a key of the job") {
  JobTableFixture f;
  const Identity first = f.join(spec_of(3)).value();
  const Identity second = f.join(spec_of(3)).value();
  const Identity silent = f.join(spec_of(3)).value();
  CHECK(f.table.views.peers_of(first).peers.empty());
  REQUIRE(f.table.note_peer(second, "10.0.0.2", 4000).ok());
  REQUIRE(f.table.note_peer(first, "", 3000).ok());
  REQUIRE(f.table.note_peer(first, "", 3001).ok());
  const PeersView view = f.table.views.peers_of(first);
  REQUIRE(view.peers.size() == 2);
  CHECK(view.peers[0].worker == 0);
  CHECK(view.peers[0].host.empty());
  CHECK(view.peers[0].port == 3001);
  CHECK(view.peers[1].worker == 1);
  CHECK(view.peers[1].host == "10.0.0.2");
  CHECK(view.key != Secret{});
  CHECK(view.key == f.table.views.peers_of(second).key);
  CHECK(f.table.views.peers_of(silent).peers.empty());
  Identity stranger = first;
  stranger.secret = {};
  CHECK(f.table.views.peers_of(stranger).peers.empty());
  CHECK(f.table.note_peer(stranger, "", 1).code() == Code::kPermissionDenied);
  const Identity other = f.join(spec_of(1, "other")).value();
  REQUIRE(f.table.note_peer(other, "", 5).ok());
  CHECK(f.table.views.peers_of(other).peers.size() == 1);
  CHECK(f.table.views.peers_of(other).key != view.key);
}

}  // namespace
}  // namespace phub::testing
