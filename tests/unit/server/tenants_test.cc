// Jobs of several tenants in one table: names, tickets, secrets that expire, places.
#include <algorithm>
#include <functional>
#include <future>

#include "tests/support/server/job_table_fixture.h"

namespace phub::testing {
namespace {

using Catch::Matchers::Contains;

JobSpec one_chunk(const std::string& name) {
  return {.name = name, .workers = 1, .keys = {{.name = "w", .elements = 1000}}};
}

TEST_CASE("two tenants have jobs of one name, each its own") {
  TenantsInMemory tenants;
  REQUIRE(tenants.create("red", {.weight = 2}));
  REQUIRE(tenants.create("blue", {}));
  JobTableFixture f(&tenants);
  const Identity red = f.join(spec_of(1), -1, "red").value();
  const Identity blue = f.join(spec_of(2), -1, "blue").value();
  const Identity plain = f.join(spec_of(1)).value();
  CHECK(red.job_id != blue.job_id);
  CHECK(f.table.views.inspect({"blue", "demo"}, 0)->spec->workers == 2);
  CHECK(f.table.views.inspect({"red", "demo"}, 0)->tenant == "red");
  CHECK(f.table.views.inspect("demo", 0)->id == plain.job_id);
  REQUIRE(f.ready(red, spec_of(1)).ok());
  CHECK(f.data_plane.layout(red.job_id)->tenant == "red");
  CHECK(f.data_plane.layout(red.job_id)->weight == 2);
  CHECK(f.data_plane.layout(red.job_id)->tenant_id == tenants.find("red")->id);

  CHECK_THAT(f.join(spec_of(1), -1, "red").error().message(), Contains("job \"red/demo\""));
  REQUIRE(f.table.life.close({"red", "demo"}).ok());
  CHECK(f.table.views.inspect({"blue", "demo"}, 0)->state == JobState::kWaiting);
  CHECK(f.state() == JobState::kWaiting);
  CHECK_THAT(f.table.life.close({"red", "demo"}).message(), Contains("\"red/demo\""));
  Identity crossed = blue;
  crossed.job_id = plain.job_id;
  CHECK(f.table.members.heartbeat(crossed).error().code() == Code::kPermissionDenied);
}

TEST_CASE("a tenant that does not exist is named with the cure") {
  TenantsInMemory tenants;
  JobTableFixture f(&tenants);
  const Status refused = f.join(spec_of(1), -1, "ghost").error();
  CHECK(refused.code() == Code::kNotFound);
  CHECK_THAT(refused.message(), Contains("\"ghost\"") && Contains("phubctl tenant create"));
  CHECK(tenants.remove("default").code() == Code::kFailedPrecondition);
  CHECK_FALSE(tenants.create("no spaces", {}));
  CHECK_FALSE(tenants.create("heavy", {.weight = 0}));
}

TEST_CASE("one-chunk jobs go to different cores, also when they start at the same moment") {
  JobTableFixture f;
  const auto core_of = [&](const Identity& member) {
    return f.data_plane.layout(member.job_id)->plan->chunks[0].core;
  };
  SECTION("one after the other") {
    const Identity first = f.join(one_chunk("a")).value();
    REQUIRE(f.ready(first, one_chunk("a")).ok());
    const Identity second = f.join(one_chunk("b")).value();
    REQUIRE(f.ready(second, one_chunk("b")).ok());
    CHECK(core_of(first) != core_of(second));
  }
  SECTION("joined before either is ready") {
    const Identity first = f.join(one_chunk("a")).value();
    const Identity second = f.join(one_chunk("b")).value();
    REQUIRE(f.ready(second, one_chunk("b")).ok());
    REQUIRE(f.ready(first, one_chunk("a")).ok());
    CHECK(core_of(first) != core_of(second));
  }
}

TEST_CASE("all workers of a job plan with the same load, whatever came between") {
  JobTableFixture f;
  f.running(1, "before");
  const Identity first = f.join(spec_of(2)).value();
  const auto load = f.table.views.core_load_bytes(first.job_id);
  CHECK(std::any_of(load.begin(), load.end(), [](std::uint64_t bytes) { return bytes > 0; }));
  f.running(1, "between");
  REQUIRE(f.table.life.close("before").ok());
  const Identity second = f.join(spec_of(2)).value();
  CHECK(f.table.views.core_load_bytes(second.job_id) == load);
  REQUIRE(f.ready(first, spec_of(2)).ok());
  CHECK(f.ready(second, spec_of(2)).ok());

  const Identity third = f.join(one_chunk("third")).value();
  const Status made_up =
      ready_now(f.table, third, {.cores_per_server = {kCores}, .core_load_bytes = {7, 7}}, 0x1);
  CHECK(made_up.code() == Code::kFailedPrecondition);
  CHECK_THAT(made_up.message(), Contains("core_load_bytes"));
}

TEST_CASE("a ticket joins its job and no other, and says nothing of what there is") {
  TenantsInMemory tenants;
  REQUIRE(tenants.create("red", {}));
  JobTableFixture f(&tenants);
  Digest hash{};
  hash.fill(0x5A);
  const std::uint64_t id = f.table.life.create(spec_of(2), "red", hash).value();
  const std::uint64_t bare = f.table.life.create(spec_of(2, "bare")).value();
  const auto join_with = [&](std::uint64_t job_id, const Digest& digest, const std::string& name) {
    return f.table.members.join({.spec = std::make_shared<const JobSpec>(spec_of(2, name)),
                                 .ticket = Ticket{.job_id = job_id, .nonce_hash = digest},
                                 .host = "host"});
  };
  CHECK(join_with(id, hash, "demo")->job_id == id);
  CHECK(join_with(id, hash, "other").error().code() == Code::kInvalidArgument);
  Digest wrong = hash;
  wrong[31] ^= 1;
  const Status refused = join_with(id, wrong, "demo").error();
  CHECK(refused.code() == Code::kUnauthenticated);
  CHECK(join_with(bare, hash, "bare").error().message() == refused.message());
  CHECK(join_with(bare, Digest{}, "bare").error().message() == refused.message());
  CHECK(join_with(99, Digest{}, "demo").error().message() == refused.message());
  REQUIRE(f.table.life.close({"red", "demo"}).ok());
  CHECK(join_with(id, hash, "demo").error().message() == refused.message());
}

TEST_CASE("the data plane takes a secret for its lifetime after join or ready, beats go on") {
  JobTableFixture f;
  const Identity member = f.join(spec_of(2)).value();
  f.time_ms += 4000;
  REQUIRE(f.ready(member, spec_of(2)).ok());
  f.time_ms += 60'000;
  CHECK(f.table.members.secret_of(member.job_id, member.epoch, 0) == IssuedSecret{member.secret});
  f.time_ms += 1;
  CHECK(f.table.members.secret_of(member.job_id, member.epoch, 0) ==
        IssuedSecret{member.secret, true});
  CHECK(f.table.members.heartbeat(member)->is_live);
  REQUIRE(f.ready(member, spec_of(2)).ok());
  CHECK(f.table.members.secret_of(member.job_id, member.epoch, 0) == IssuedSecret{member.secret});
}

struct FakeJobStore {
  Status add(const StoredJob& job) {
    if (while_saving) while_saving();
    if (is_full) return {Code::kInternal, "no space"};
    jobs.push_back(job);
    return {};
  }
  Status remove(std::uint64_t job_id) {
    if (is_full) return {Code::kResourceExhausted, "no space"};
    std::erase_if(jobs, [&](const StoredJob& job) { return job.id == job_id; });
    return {};
  }
  JobStore functions() {
    return {.add = [this](const StoredJob& job) { return add(job); },
            .remove = [this](std::uint64_t job_id) { return remove(job_id); },
            .reserve_ids =
                [this](std::uint64_t count) {
                  next_id += count;
                  return Result<std::uint64_t>(next_id - count);
                }};
  }
  std::function<void()> while_saving = {};
  bool is_full = false;
  std::vector<StoredJob> jobs;
  std::uint64_t next_id = 100;
};

TEST_CASE("jobs of administrators come back after a restart, ended and closed ones do not") {
  FakeJobStore store;
  std::uint64_t kept = 0;
  {
    JobTableFixture f(nullptr, store.functions());
    kept = f.table.life.create(spec_of(2, "kept"), "default", Digest{1}).value();
    CHECK(kept == 100);
    REQUIRE(f.table.life.create(spec_of(2, "closed")));
    const Identity member = f.join(spec_of(2, "closed")).value();
    CHECK(member.job_id == 101);
    REQUIRE(f.join(spec_of(1, "by a worker")));
    REQUIRE(f.table.life.close("closed").ok());
    f.table.reap();
    store.is_full = true;
    CHECK(f.table.life.create(spec_of(1, "lost")).error().message() == "no space");
    CHECK(f.state("lost") == JobState::kFailed);
    f.table.drain(milliseconds(1));
    f.table.fail_all("the server was stopped");
    f.table.reap();
  }
  REQUIRE(store.jobs.size() == 1);
  ++store.jobs[0].epoch;
  JobTableFixture f(nullptr, store.functions());
  f.table.life.restore(store.jobs);
  CHECK(f.state("kept") == JobState::kWaiting);
  const Identity member = f.join(spec_of(2, "kept")).value();
  CHECK(member.job_id == kept);
  CHECK(member.epoch == 2);
  Identity old = member;
  old.epoch = 1;
  CHECK_THAT(f.table.members.heartbeat(old).error().message(),
             Contains("was the server restarted?"));
  CHECK(f.join(spec_of(1, "new"))->job_id >= 164);
}

TEST_CASE("a close that is answered is written, and one that cannot be written is not done") {
  FakeJobStore store;
  JobTableFixture f(nullptr, store.functions());
  REQUIRE(f.table.life.create(spec_of(2, "closed")));
  REQUIRE(f.table.life.create(spec_of(2, "kept")));
  REQUIRE(f.table.life.close("closed").ok());
  REQUIRE(store.jobs.size() == 1);  // no reaper has run
  store.is_full = true;
  CHECK(f.table.life.close("kept").code() == Code::kResourceExhausted);
  CHECK(f.state("kept") == JobState::kWaiting);
  store.is_full = false;
  REQUIRE(f.table.life.close("kept").ok());
  CHECK(store.jobs.empty());
}

TEST_CASE("what ended by itself while nothing could be written is forgotten when it can") {
  FakeJobStore store;
  JobTableFixture f(nullptr, store.functions());
  REQUIRE(f.table.life.create(spec_of(1, "ended")));
  const Identity member = f.join(spec_of(1, "ended")).value();
  REQUIRE(f.ready(member, spec_of(1, "ended")).ok());
  f.table.members.on_lost(member.job_id, 0, "test");
  store.is_full = true;
  f.table.reap();
  CHECK(store.jobs.size() == 1);
  CHECK(f.table.wait_until_idle(milliseconds(0)));
  store.is_full = false;
  f.table.reap();
  CHECK(store.jobs.empty());
}

TEST_CASE("a job that is closed while it is being saved does not come back") {
  FakeJobStore store;
  JobTableFixture f(nullptr, store.functions());
  std::future<Status> closed;
  store.while_saving = [&] {
    closed = std::async(std::launch::async, [&] { return f.table.life.close("brief"); });
  };
  REQUIRE(f.table.life.create(spec_of(1, "brief")));
  CHECK(closed.get().ok());
  CHECK(store.jobs.empty());
}

TEST_CASE("a tenant made again under a deleted name sees nothing of the old one's jobs") {
  TenantsInMemory tenants;
  const Tenant old = tenants.create("red", {}).value();
  JobTableFixture f(&tenants);
  REQUIRE(f.table.life.create(spec_of(1, "secret"), "red"));
  REQUIRE(f.table.life.create(spec_of(1, "ended"), "red"));
  REQUIRE(f.table.life.close({"red", "ended"}).ok());
  REQUIRE(tenants.remove("red").ok());
  REQUIRE(tenants.create("red", {}));
  REQUIRE(f.table.life.create(spec_of(1, "new"), "red"));
  f.table.life.close_all_of(old.id);
  CHECK(f.table.views.inspect({"red", "secret"}, 0).error().code() == Code::kNotFound);
  CHECK(f.table.views.inspect({"red", "ended"}, 0).error().code() == Code::kNotFound);
  CHECK(f.table.views.inspect({"red", "new"}, 0)->state == JobState::kWaiting);
  CHECK(f.table.views.inspect({name_of_deleted(old), "secret"}, 0)->reason ==
        "its tenant was deleted");
  CHECK_FALSE(validate_tenant_name("name", name_of_deleted(old)).ok());
}

}  // namespace
}  // namespace phub::testing
