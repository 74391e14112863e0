// Who tenants are and what they may take, each bound at its edge.
#include <catch2/catch.hpp>
#include <string>

#include "server/access/directory.h"
#include "tests/support/server/tenants_in_memory.h"
#include "tests/support/temporary_directory.h"

namespace phub::server {
namespace {

using Catch::Matchers::Contains;

constexpr std::uint64_t kMiB = 1024 * 1024;

Tenant tenant_with(const Quotas& quotas) {
  Tenant tenant;
  tenant.name = "red";
  tenant.quotas = quotas;
  return tenant;
}

}  // namespace

TEST_CASE("a tenant's name has 1 to 64 letters, digits, dots, dashes or underscores") {
  for (const std::string& good : {std::string("a"), std::string("A-z_0.9"), std::string(64, 'x')}) {
    CHECK(validate_tenant_name("name", good).ok());
  }
  for (const std::string& wrong : {std::string(), std::string(65, 'x'), std::string("a/b"),
                                   std::string("a b"), std::string("a\n"), std::string("\xC3\xA4"),
                                   std::string("a\0b", 3), std::string("a@"), std::string("a[")}) {
    const Status refused = validate_tenant_name("name", wrong);
    CHECK(refused.code() == Code::kInvalidArgument);
    CHECK_THAT(refused.message(), Contains("name"));
  }
}

TEST_CASE("a weight is from 1 to 1000, and memory has a bound") {
  for (const std::uint32_t weight : {1U, 1000U}) CHECK(validate({.weight = weight}).ok());
  for (const std::uint32_t weight : {0U, 1001U, ~0U}) {
    CHECK_THAT(validate({.weight = weight}).message(), Contains("weight"));
  }
  CHECK(validate({.memory_mib = std::uint64_t{1} << 40U}).ok());
  CHECK_THAT(validate({.memory_mib = (std::uint64_t{1} << 40U) + 1}).message(),
             Contains("memory_mib"));
}

TEST_CASE("a quota is full when it is reached, and not before") {
  const Tenant jobs = tenant_with({.jobs = 3});
  CHECK(admit_job(jobs, {.jobs = 2}, 1000).ok());
  CHECK(admit_job(jobs, {.jobs = 3}, 1000).code() == Code::kResourceExhausted);
  const Tenant connections = tenant_with({.connections = 10});
  CHECK(admit_job(connections, {.jobs = 1000, .connections = 6}, 4).ok());
  CHECK(admit_job(connections, {.connections = 6}, 5).code() == Code::kResourceExhausted);
  CHECK(admit_job(connections, {.connections = 10}, 1).code() == Code::kResourceExhausted);
  const Tenant memory = tenant_with({.memory_mib = 5});
  CHECK(admit_memory(memory, {.memory_bytes = 2 * kMiB}, 3 * kMiB).ok());
  CHECK(admit_memory(memory, {.memory_bytes = 2 * kMiB}, 3 * kMiB + 1).code() ==
        Code::kResourceExhausted);
  CHECK(admit_memory(memory, {.memory_bytes = 5 * kMiB}, 1).code() == Code::kResourceExhausted);
}

TEST_CASE("no quota is no bound") {
  const Tenant free = tenant_with({});
  CHECK(admit_job(free, {.jobs = ~0U - 1, .connections = 1U << 30U}, 1U << 30U).ok());
  CHECK(admit_memory(free, {.memory_bytes = std::uint64_t{1} << 60U}, kMiB).ok());
}

TEST_CASE("a tenant is made once, changed in its bounds, and deleted unless it is the default") {
  testing::TenantsInMemory tenants;
  REQUIRE(tenants.create("red", {.jobs = 1}));
  CHECK(tenants.create("red", {}).error().code() == Code::kAlreadyExists);
  CHECK(tenants.find("red")->quotas.jobs == 1);
  CHECK(tenants.create("a/b", {}).error().code() == Code::kInvalidArgument);
  CHECK(tenants.create("blue", {.weight = 0}).error().code() == Code::kInvalidArgument);
  CHECK(tenants.list().size() == 2);

  REQUIRE(tenants.set("red", {.jobs = 7, .weight = 5}));
  CHECK(tenants.find("red")->quotas.jobs == 7);
  CHECK(tenants.find("red")->quotas.weight == 5);
  CHECK(tenants.set("red", {.weight = 1001}).error().code() == Code::kInvalidArgument);
  CHECK(tenants.find("red")->quotas.weight == 5);
  CHECK(tenants.set("green", {}).error().code() == Code::kNotFound);

  CHECK(tenants.remove(std::string(kDefaultTenant)).code() == Code::kFailedPrecondition);
  CHECK(tenants.find(std::string(kDefaultTenant)));
  const std::uint32_t id = tenants.find("red")->id;
  REQUIRE(tenants.remove("red").ok());
  CHECK(tenants.remove("red").code() == Code::kNotFound);
  CHECK(tenants.create("red", {})->id != id);
}

TEST_CASE("quotas that were changed are there after a restart, each of them") {
  const TemporaryDirectory folder;
  const std::string state = folder.path / "state";
  {
    const auto store = std::move(*Store::open(state));
    TenantDirectory tenants(*store);
    REQUIRE(tenants.load().ok());
    REQUIRE(tenants.create("red", {.memory_mib = 1, .connections = 2, .jobs = 3, .weight = 4}));
    REQUIRE(tenants.set("red", {.memory_mib = 5, .connections = 6, .jobs = 7, .weight = 8}));
  }
  const auto store = std::move(*Store::open(state));
  TenantDirectory tenants(*store);
  REQUIRE(tenants.load().ok());
  const Quotas quotas = tenants.find("red")->quotas;
  CHECK(quotas.memory_mib == 5);
  CHECK(quotas.connections == 6);
  CHECK(quotas.jobs == 7);
  CHECK(quotas.weight == 8);
}

TEST_CASE("a tenant's shared id is there after a restart, and goes with the tenant") {
  const TemporaryDirectory folder;
  const std::string state = folder.path / "state";
  {
    const auto store = std::move(*Store::open(state));
    TenantDirectory tenants(*store);
    REQUIRE(tenants.load().ok());
    REQUIRE(tenants.create("red", {}));
    REQUIRE(tenants.create("blue", {}));
    CHECK(tenants.share("red", "first")->shared_id == "first");
    CHECK(tenants.share("red", "red-of-all")->shared_id == "red-of-all");
    CHECK(tenants.share("blue", "blue")->shared_id == "blue");
    CHECK(tenants.share("blue", "")->shared_id.empty());
    CHECK_THAT(tenants.share("red", "a b").error().message(), Contains("shared_id"));
    CHECK_THAT(tenants.share("default", "x").error().message(), Contains("leave it out"));
  }
  const auto store = std::move(*Store::open(state));
  TenantDirectory tenants(*store);
  REQUIRE(tenants.load().ok());
  CHECK(tenants.find("red")->shared_id == "red-of-all");
  CHECK(tenants.find("blue")->shared_id.empty());
  REQUIRE(tenants.remove("red").ok());
  CHECK(tenants.create("red", {})->shared_id.empty());
}

}  // namespace phub::server
