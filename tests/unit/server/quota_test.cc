// Quotas and the host's memory: what does not fit is refused with the figures.
#include <fstream>

#include "server/job/footprint.h"
#include "server/jobs/core_load.h"
#include "server/process/host_memory.h"
#include "tests/support/server/job_table_fixture.h"
#include "tests/support/temporary_directory.h"

namespace phub::testing {
namespace {

using Catch::Matchers::Contains;

constexpr std::uint64_t kMebibyte = 1024 * 1024;

JobSpec large(const std::string& name, std::uint64_t mebibytes) {
  return {.name = name,
          .workers = 1,
          .rule = RuleKind::kMomentum,
          .keys = {{.name = "w", .elements = mebibytes * kMebibyte / 4}}};
}

TEST_CASE("the quota of live jobs is that of one tenant") {
  TenantsInMemory tenants;
  REQUIRE(tenants.create("red", {.jobs = 2}));
  JobTableFixture f(&tenants);
  REQUIRE(f.join(spec_of(1, "a"), -1, "red"));
  REQUIRE(f.table.life.create(spec_of(1, "b"), "red"));
  for (const Status& refused : {f.join(spec_of(1, "c"), -1, "red").error(),
                                f.table.life.create(spec_of(1, "c"), "red").error()}) {
    CHECK(refused.code() == Code::kResourceExhausted);
    CHECK_THAT(refused.message(), Contains("\"red\" has 2 live jobs and its quota is 2"));
  }
  CHECK(f.join(spec_of(1, "c")));
  REQUIRE(f.table.life.close({"red", "a"}).ok());
  CHECK(f.join(spec_of(1, "c"), -1, "red"));
  REQUIRE(tenants.set("red", {.jobs = 3}));
  CHECK(f.join(spec_of(1, "d"), -1, "red"));
}

TEST_CASE("beside others a tenant without quotas takes half at most, alone all") {
  TenantsInMemory tenants;
  FakeDataPlane data_plane(kCores);
  JobTable table({.live_jobs_max = 6, .connections_per_core = 16, .tenants = &tenants});
  table.attach(data_plane);
  REQUIRE(table.life.create(spec_of(16, "all")));
  REQUIRE(table.life.close("all").ok());
  REQUIRE(tenants.create("red", {}));
  REQUIRE(tenants.create("blue", {.connections = 32, .jobs = 6}));
  const Status wide = table.life.create(spec_of(9, "a"), "red").error();
  CHECK(wide.code() == Code::kResourceExhausted);
  CHECK_THAT(wide.message(), Contains("needs 18 connections") && Contains("quota of 16"));
  for (const char* const name : {"a", "b", "c"})
    REQUIRE(table.life.create(spec_of(1, name), "red"));
  CHECK_THAT(table.life.create(spec_of(1, "d"), "red").error().message(),
             Contains("\"red\" has 3 live jobs and its quota is 3"));
  CHECK(table.life.create(spec_of(16, "wide"), "blue"));
}

TEST_CASE("connections are workers times cores of all live jobs") {
  TenantsInMemory tenants;
  REQUIRE(tenants.create("red", {.connections = 5}));
  JobTableFixture f(&tenants);
  REQUIRE(f.join(spec_of(1, "a"), -1, "red"));
  const Status refused = f.join(spec_of(2, "b"), -1, "red").error();
  CHECK(refused.code() == Code::kResourceExhausted);
  CHECK_THAT(refused.message(),
             Contains("needs 4 connections") && Contains("has 2 of its quota of 5"));
  CHECK(f.table.usage.of("red").connections == 2);
}

TEST_CASE("memory counts parameters, optimizer state and what serves them until the release") {
  TenantsInMemory tenants;
  REQUIRE(tenants.create("red", {.memory_mib = 36}));
  JobTableFixture f(&tenants);
  const JobSpec first = large("a", 10);
  REQUIRE(f.ready(f.join(first, -1, "red").value(), first).ok());
  const std::uint64_t bytes = f.table.usage.of("red").memory_bytes;
  CHECK(bytes > 22 * kMebibyte);  // 20 of the model, and what cores read ahead
  CHECK(bytes < 23 * kMebibyte);
  const JobSpec second = large("b", 6);
  const Identity member = f.join(second, -1, "red").value();
  const Status refused = f.ready(member, second);
  CHECK(refused.code() == Code::kResourceExhausted);
  CHECK_THAT(refused.message(), Contains("job \"red/b\"") && Contains("needs 15 MiB") &&
                                    Contains("has 23 MiB of its quota of 36 MiB"));
  CHECK(f.table.usage.of("red").memory_bytes == bytes);
  REQUIRE(f.table.life.close({"red", "a"}).ok());
  CHECK(f.ready(member, second).ok());
}

TEST_CASE(
    "a snapshot under way counts as its tenant's memory, and is refused when it does not fit") {
  TenantsInMemory tenants;
  REQUIRE(tenants.create("red", {.memory_mib = 42}));
  JobTableFixture f(&tenants);
  const JobSpec spec = large("a", 10);
  const Identity member = f.join(spec, -1, "red").value();
  CHECK(f.table.usage.admit_copy_of(member.job_id));  // nothing is there to be copied yet
  REQUIRE(f.ready(member, spec).ok());
  const std::uint64_t bytes = f.table.usage.of("red").memory_bytes;
  const auto refused = f.table.usage.admit_copy_of(member.job_id);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code() == Code::kResourceExhausted);
  CHECK_THAT(refused.error().message(), Contains("the snapshot needs 20 MiB") &&
                                            Contains("has 23 MiB of its quota of 42 MiB"));
  REQUIRE(tenants.set("red", {.memory_mib = 43}));
  {
    const auto counted = f.table.usage.admit_copy_of(member.job_id);
    REQUIRE(counted);
    CHECK(f.table.usage.of("red").memory_bytes == bytes + 20 * kMebibyte);
    CHECK_FALSE(f.table.usage.admit_copy_of(member.job_id));
  }
  CHECK(f.table.usage.of("red").memory_bytes == bytes);
}

TEST_CASE("what a job stages beyond what was admitted counts as its tenant's memory") {
  TenantsInMemory tenants;
  REQUIRE(tenants.create("red", {.memory_mib = 60}));
  JobTableFixture f(&tenants);
  const JobSpec spec = large("a", 10);
  const Identity member = f.join(spec, -1, "red").value();
  REQUIRE(f.ready(member, spec).ok());
  const std::uint64_t bytes = f.table.usage.of("red").memory_bytes;
  f.data_plane.beyond = {{member.job_id, 25 * kMebibyte}};
  f.table.reap();
  CHECK(f.table.usage.of("red").memory_bytes == bytes + 25 * kMebibyte);
  const JobSpec second = large("b", 10);
  const Status refused = f.ready(f.join(second, -1, "red").value(), second);
  CHECK(refused.code() == Code::kResourceExhausted);
  f.data_plane.beyond.clear();
  f.table.reap();
  CHECK(f.table.usage.of("red").memory_bytes == bytes);
}

TEST_CASE("a worker's window counts where RDMA is offered, and 16-bit copies everywhere") {
  JobLayout layout;
  layout.workers = 3;
  layout.wire_type = DataType::kFloat16;
  layout.rule = RuleKind::kMomentum;
  layout.plan = std::make_shared<const Plan>(
      make_plan(
          {.key_elements = {1 << 20}, .wire_type = DataType::kFloat16, .cores_per_server = {1}})
          .value());
  const std::uint64_t tables = bytes_of_bookkeeping(layout);
  CHECK(bytes_pinned(layout, {}) == 10 * kMebibyte + tables);  // 2 + 4 + 4 bytes an element
  CHECK(bytes_pinned(layout, {.windows = true}) == 16 * kMebibyte + tables);
}

TEST_CASE("the buffer of each encrypted connection counts as its tenant's memory") {
  constexpr std::uint64_t kBuffer = 4 * (16 + 16 + 32 * 1024 + 16);  // four records, their tags
  std::uint64_t bytes[2] = {};
  for (const bool encrypts : {false, true}) {
    TenantsInMemory tenants;
    REQUIRE(tenants.create("red", {.memory_mib = 36}));
    JobTableFixture f(&tenants);
    f.data_plane.encrypts = encrypts;
    JobSpec spec = large("a", 10);
    spec.workers = 3;
    const Identity member = f.join(spec, -1, "red").value();
    REQUIRE(f.ready(member, spec).ok());
    bytes[encrypts ? 1 : 0] = f.table.usage.of("red").memory_bytes;
    REQUIRE(f.table.life.close({"red", "a"}).ok());
    f.table.reap();
    spec.workers = 40;
    const Status refused = f.ready(f.join(spec, -1, "red").value(), spec);
    CHECK(refused.code() == Code::kResourceExhausted);
    CHECK_THAT(refused.message(), Contains("quota of 36 MiB"));
  }
  CHECK(bytes[1] - bytes[0] == 3 * kCores * kBuffer);
}

TEST_CASE("the server's limit and the host's memory refuse with what there is") {
  CHECK(admit(5 * kMebibyte, {.available_bytes = 5 * kMebibyte}).ok());
  const Status limit = admit(
      5 * kMebibyte,
      {.limit_bytes = 10 * kMebibyte, .admitted_bytes = 6 * kMebibyte, .available_bytes = ~0ULL});
  CHECK(limit.code() == Code::kResourceExhausted);
  CHECK_THAT(limit.message(),
             Contains("needs 5 MiB") && Contains("6 MiB of memory_limit_mib 10 are taken"));
  CHECK(admit(5 * kMebibyte, {.limit_bytes = 10 * kMebibyte,
                              .admitted_bytes = 5 * kMebibyte,
                              .available_bytes = ~0ULL})
            .ok());
  CHECK_FALSE(admit(5 * kMebibyte + 1, {.available_bytes = 5 * kMebibyte}).ok());
  const Status host = admit(5 * kMebibyte, {.admitted_bytes = 8 * kMebibyte,
                                            .untouched_bytes = 2 * kMebibyte,
                                            .available_bytes = 6 * kMebibyte});
  CHECK_THAT(host.message(), Contains("this host has 4 MiB left (6 MiB available, 2 MiB of them"));
}

TEST_CASE("what the kernel says is available is read, with the pool where it is used") {
  const TemporaryDirectory folder;
  const std::string path = folder.path / "meminfo";
  std::ofstream(path) << "MemTotal:  100 kB\nMemAvailable:   50 kB\nHugePages_Free:   3\n"
                         "Hugepagesize:  2048 kB\n";
  CHECK(available_bytes(false, path) == 50 * 1024);
  CHECK(available_bytes(true, path) == (50 + 3 * 2048) * 1024);
  CHECK(available_bytes(false, folder.path / "none") == ~0ULL);
  CHECK(available_bytes(false) > kMebibyte);
}

TEST_CASE("a job that is not planned yet counts where its chunks will go") {
  CHECK(expected_load({0, 0}, 1000, 32768) == CoreLoad{1000, 0});
  CHECK(expected_load({100, 0}, 1000, 32768) == CoreLoad{0, 1000});
  CHECK(expected_load({}, 1000, 32768).empty());
  const CoreLoad large_job = expected_load({0, 0, 0}, 300'000'000, 32768);
  for (const std::uint64_t bytes : large_job) CHECK(bytes == Approx(1e8).epsilon(0.01));
}

}  // namespace
}  // namespace phub::testing
