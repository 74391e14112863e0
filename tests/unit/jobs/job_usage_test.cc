// What counts as a job's memory: all of it, until it is given back.
#include "tests/support/server/job_table_fixture.h"

namespace phub::testing {
namespace {

using Catch::Matchers::Contains;

constexpr std::uint64_t kOneMebibyte = 1024 * 1024;

// Its parameters have 20 MiB.
JobSpec large() {
  return {.name = "a",
          .workers = 1,
          .rule = RuleKind::kSgd,
          .keys = {{.name = "w", .elements = 20 * kOneMebibyte / 4}}};
}

// Its parameters have 4 GiB, in a chunk more than 2^20: a plan of 68 MiB.
JobSpec of_many_chunks() {
  return {.name = "many",
          .workers = 1,
          .rule = RuleKind::kSgd,
          .chunk_bytes = 4096,
          .keys = {{.name = "w", .elements = 1024 * kOneMebibyte + 1}}};
}

// Of a job of the default tenant that is ready, on cores with these ports.
std::uint64_t bytes_with(const std::vector<server::CorePort>& ports) {
  const TenantsInMemory tenants;
  JobTableFixture f(&tenants);
  f.data_plane.ports = ports;
  REQUIRE(f.ready(f.join(large()).value(), large()).ok());
  return f.table.usage.of(std::string(kDefaultTenant)).memory_bytes;
}

}  // namespace

TEST_CASE("an ended job's memory counts until it is released, its connections do not") {
  TenantsInMemory tenants;
  REQUIRE(tenants.create("red", {}));
  JobTableFixture f(&tenants);
  const Identity member = f.join(large(), -1, "red").value();
  REQUIRE(f.ready(member, large()).ok());
  f.connect(member);
  const std::uint64_t bytes = f.table.usage.of("red").memory_bytes;
  CHECK(bytes >= 20 * kOneMebibyte);
  CHECK(f.table.usage.of("red").jobs == 1);
  CHECK(f.table.usage.of("red").connections == kCores);
  CHECK(f.table.usage.of(std::string(kDefaultTenant)).memory_bytes == 0);
  CHECK(f.table.usage.of(std::string(kDefaultTenant)).jobs == 0);

  // As a core tells it, which releases nothing itself.
  f.table.members.on_lost(member.job_id, member.worker, "its connection closed");
  CHECK(f.table.usage.of("red").jobs == 0);
  CHECK(f.table.usage.of("red").connections == 0);
  CHECK(f.table.usage.of("red").memory_bytes == bytes);
  f.table.reap();
  CHECK(f.table.usage.of("red").memory_bytes == 0);
}

TEST_CASE("where RDMA is offered a worker's window counts as its job's memory") {
  const std::uint64_t windows = bytes_with(std::vector<server::CorePort>(kCores)) - bytes_with({});
  CHECK(windows >= 20 * kOneMebibyte);
  CHECK(windows < 21 * kOneMebibyte);
}

TEST_CASE("a job that is too large for its tenant is refused before it is planned") {
  TenantsInMemory tenants;
  REQUIRE(tenants.create("red", {.memory_mib = 60}));
  JobTableFixture f(&tenants);
  const Identity member = f.join(of_many_chunks(), -1, "red").value();
  // On its only server all of it counts, on one of several the plan does.
  for (const std::vector<std::uint32_t>& cores :
       {std::vector<std::uint32_t>{kCores}, std::vector<std::uint32_t>{kCores, 1000}}) {
    const Status refused = ready_now(f.table, member, {.cores_per_server = cores}, 0);
    CHECK(refused.code() == Code::kResourceExhausted);  // a plan would not have this hash
    CHECK_THAT(refused.message(), Contains("job \"red/many\"") && Contains("quota of 60 MiB"));
    CHECK(f.table.usage.of("red").memory_bytes == 0);
  }
}

TEST_CASE("a job for which the server has no room is refused before it is planned") {
  TenantsInMemory tenants;
  REQUIRE(tenants.create("red", {}));
  JobTableFixture f(&tenants);
  const Identity member = f.join(of_many_chunks(), -1, "red").value();
  f.data_plane.room_bytes = 4096 * kOneMebibyte;
  std::uint64_t counted = 0;
  f.data_plane.on_reserve = [&] { counted = f.table.usage.of("red").memory_bytes; };
  const Status refused = ready_now(f.table, member, {.cores_per_server = {kCores}}, 0);
  CHECK(refused.code() == Code::kResourceExhausted);
  CHECK_THAT(refused.message(), Contains("counted before it is planned"));
  CHECK(counted > 4096 * kOneMebibyte);  // while it is asked for
  CHECK(f.table.usage.of("red").memory_bytes == 0);
}

TEST_CASE("a plan that is too large to be shown is not made for that") {
  JobTableFixture f;
  REQUIRE(f.join(of_many_chunks()));
  const Result<PlanView> refused = f.table.views.plan("many");
  CHECK(refused.error().code() == Code::kResourceExhausted);
  CHECK_THAT(refused.error().message(), Contains("1048577 chunks"));
}

}  // namespace phub::testing
