// What counts as a job's memory: all of it, until it is given back.
#include "tests/support/job_table_fixture.h"

namespace phub::testing {
namespace {

constexpr std::uint64_t kMebibyte = 1024 * 1024;

// Its parameters have 20 MiB.
JobSpec large() {
  return {.name = "a",
          .workers = 1,
          .rule = RuleKind::kSgd,
          .keys = {{.name = "w", .elements = 20 * kMebibyte / 4}}};
}

// Of a job of the default tenant that is ready, on cores with these ports.
std::uint64_t bytes_with(const std::vector<server::CorePort>& ports) {
  const TenantDirectory tenants;
  JobTableFixture f(&tenants);
  f.data_plane.ports = ports;
  REQUIRE(f.ready(f.join(large()).value(), large()).ok());
  return f.table.usage_of(std::string(kDefaultTenant)).memory_bytes;
}

}  // namespace

TEST_CASE("an ended job's memory counts until it is released, its connections do not") {
  TenantDirectory tenants;
  REQUIRE(tenants.create("red", {}));
  JobTableFixture f(&tenants);
  const Identity member = f.join(large(), -1, "red").value();
  REQUIRE(f.ready(member, large()).ok());
  f.connect(member);
  const std::uint64_t bytes = f.table.usage_of("red").memory_bytes;
  CHECK(bytes >= 20 * kMebibyte);
  CHECK(f.table.usage_of("red").jobs == 1);
  CHECK(f.table.usage_of("red").connections == kCores);
  CHECK(f.table.usage_of(std::string(kDefaultTenant)).memory_bytes == 0);
  CHECK(f.table.usage_of(std::string(kDefaultTenant)).jobs == 0);

  // As a core tells it, which releases nothing itself.
  f.table.on_lost(member.job_id, member.worker, "its connection closed");
  CHECK(f.table.usage_of("red").jobs == 0);
  CHECK(f.table.usage_of("red").connections == 0);
  CHECK(f.table.usage_of("red").memory_bytes == bytes);
  f.table.reap();
  CHECK(f.table.usage_of("red").memory_bytes == 0);
}

TEST_CASE("where RDMA is offered a worker's window counts as its job's memory") {
  const std::uint64_t windows = bytes_with(std::vector<server::CorePort>(kCores)) - bytes_with({});
  CHECK(windows >= 20 * kMebibyte);
  CHECK(windows < 21 * kMebibyte);
}

}  // namespace phub::testing
