// What the state folder keeps, and what it refuses.
#include "server/state/store.h"

#include <sqlite3.h>

#include <catch2/catch.hpp>

#include "server/access/directory.h"
#include "tests/support/temporary_directory.h"

namespace phub::testing {
namespace {

using namespace server;  // NOLINT(google-build-using-namespace): what the test is about
using Catch::Matchers::Contains;

void run_statement(const std::string& path, const char* sql) {
  sqlite3* connection = nullptr;
  REQUIRE(sqlite3_open(path.c_str(), &connection) == SQLITE_OK);
  REQUIRE(sqlite3_exec(connection, sql, nullptr, nullptr, nullptr) == SQLITE_OK);
  sqlite3_close(connection);
}

TEST_CASE("tenants, tokens, jobs, ids and the audit log are there again after a restart") {
  const TemporaryDirectory folder;
  const std::string state = folder.path / "a" / "state";
  const Digest digest = digest_of("x");
  {
    const auto store = std::move(*Store::open(state));
    TenantDirectory tenants(*store);
    REQUIRE(tenants.load().ok());
    REQUIRE(tenants.create("red", {.memory_mib = 7, .connections = 6, .jobs = 5, .weight = 4}));
    REQUIRE(tenants.set("default", {.jobs = 9}));
    REQUIRE(store
                ->add_token({.id = store->next_token_id().value(),
                             .tenant_id = 1,
                             .label = "ci",
                             .hash = digest})
                .ok());
    REQUIRE(store
                ->add_job(
                    {.id = 3, .tenant_id = 1, .spec = std::string("a\0b", 3), .nonce_hash = digest})
                .ok());
    for (const char* const spec : {"before", "c"}) {  // the later one takes its place
      REQUIRE(store->add_job({.id = 4, .tenant_id = 0, .spec = spec, .nonce_hash = {}}).ok());
    }
    CHECK(store->reserve_job_ids(10).value() == 1);
    REQUIRE(
        store
            ->add_audit(
                {.unix_ms = 5, .principal = "p", .action = "a", .object = "o", .outcome = "done"})
            .ok());
  }
  const auto store = std::move(*Store::open(state));
  TenantDirectory tenants(*store);
  REQUIRE(tenants.load().ok());
  const Tenant red = tenants.find("red").value();
  CHECK(red.id == 1);
  CHECK(red.quotas.memory_mib == 7);
  CHECK(red.quotas.connections == 6);
  CHECK(red.quotas.jobs == 5);
  CHECK(red.quotas.weight == 4);
  CHECK(tenants.find("default")->quotas.jobs == 9);
  CHECK(store->tokens()->at(0).hash == digest);
  const auto jobs = store->take_jobs().value();
  REQUIRE(jobs.size() == 2);
  CHECK(jobs[0].spec == std::string("a\0b", 3));
  CHECK(jobs[0].epoch == 2);
  CHECK(jobs[0].nonce_hash == digest);
  CHECK_FALSE(jobs[1].nonce_hash);
  CHECK(store->reserve_job_ids(10).value() == 11);
  CHECK(store->last_audits(10)->at(0).principal == "p");

  REQUIRE(tenants.remove("red").ok());
  CHECK(store->tokens()->empty());
  CHECK(store->take_jobs()->size() == 1);
  CHECK(tenants.create("red", {})->id == 2);  // ids are never given again
}

TEST_CASE("a folder that another server uses is refused, and free when that one is gone") {
  const TemporaryDirectory folder;
  auto first = Store::open(folder.path);
  REQUIRE(first);
  const auto second = Store::open(folder.path);
  REQUIRE_FALSE(second);
  CHECK(second.error().code() == Code::kFailedPrecondition);
  CHECK_THAT(second.error().message(), Contains("in use by another phub-server"));
  first->reset();
  CHECK(Store::open(folder.path));
}

TEST_CASE("a schema from the future, or a file that is no database, is refused with the cure") {
  const TemporaryDirectory folder;
  const std::string path = folder.path / "state.sqlite";
  SECTION("a newer schema") {
    REQUIRE(Store::open(folder.path));
    run_statement(path, "PRAGMA user_version = 99");
    const auto refused = Store::open(folder.path);
    REQUIRE_FALSE(refused);
    CHECK_THAT(refused.error().message(),
               Contains("has schema 99") && Contains("newer phub-server"));
  }
  SECTION("another file") {
    folder.write("state.sqlite", std::string(5000, 'x'));
    const auto refused = Store::open(folder.path);
    REQUIRE_FALSE(refused);
    CHECK_THAT(refused.error().message(), Contains("state_folder") && Contains("no database"));
  }
}

TEST_CASE("migrations run once each, in order, from any version") {
  const TemporaryDirectory folder;
  const std::string path = folder.path / "x.sqlite";
  const std::array<std::string_view, 2> migrations = {
      "CREATE TABLE t (a INTEGER); INSERT INTO t VALUES (1);", "INSERT INTO t VALUES (2);"};
  REQUIRE(Database::open(path, {.migrations = std::span(migrations).first(1)}));
  for (int i = 0; i < 2; ++i) {
    const auto database = std::move(*Database::open(path, {.migrations = migrations}));
    Statement query = database->prepare("SELECT count(*), max(a) FROM t");
    REQUIRE(query.step().value());
    CHECK(query.integer(0) == 2);
    CHECK(query.integer(1) == 2);
  }
}

TEST_CASE("the audit log in memory is bounded") {
  const auto store = std::move(*Store::open(""));
  for (int i = 0; i < 1500; ++i) REQUIRE(store->add_audit({i, "p", "a", "o", "done"}).ok());
  const auto records = store->last_audits(10'000).value();
  CHECK(records.size() == 1000);
  CHECK(records.front().unix_ms == 500);
  CHECK(records.back().unix_ms == 1499);
}

}  // namespace
}  // namespace phub::testing
