// A damaged state file is refused, or it was damaged where nothing is: it never serves what was
// not written.
#include <spdlog/spdlog.h>
#include <sqlite3.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <random>
#include <sstream>

#include "server/access/tenancy.h"
#include "server/state/schema.h"
#include "tests/support/temporary_directory.h"

namespace phub::testing {
namespace {

using namespace server;  // NOLINT(google-build-using-namespace): what the test is about
using Catch::Matchers::Contains;
namespace fs = std::filesystem;

constexpr std::size_t kPage = 4096;
constexpr unsigned kSeeds = 300;

void run_sql(const std::string& path, const std::string& sql) {
  sqlite3* connection = nullptr;
  REQUIRE(sqlite3_open(path.c_str(), &connection) == SQLITE_OK);
  char* error = nullptr;
  const int code = sqlite3_exec(connection, sql.c_str(), nullptr, nullptr, &error);
  INFO((error == nullptr ? "" : error));
  REQUIRE(code == SQLITE_OK);
  sqlite3_close(connection);
}

void fill(const std::string& folder) {
  const auto opened = Tenancy::open({.state_folder = folder});
  REQUIRE(opened);
  Tenancy& tenancy = **opened;
  for (const char* const name : {"red", "green", "blue"}) {
    const Tenant tenant = tenancy.directory.create(name, {.memory_mib = 40, .jobs = 3}).value();
    REQUIRE(tenancy.tokens.create(Role::kTenant, tenant, "ci", 0));
    REQUIRE(tenancy.store->reserve_job_ids(1));
    REQUIRE(tenancy.store
                ->add_job({.id = tenant.id,
                           .tenant_id = tenant.id,
                           .spec = std::string(3000, name[0]),
                           .nonce_hash = digest_of(name)})
                .ok());
  }
  REQUIRE(tenancy.tokens.create(Role::kAdmin, {}, "", 0));
  REQUIRE(tenancy.tokens.revoke(2).ok());
  for (int i = 0; i < 30; ++i) {
    tenancy.audit.record({.name = "somebody", .is_admin = i % 2 == 0}, "act", "thing", {});
  }
}

// All that the store tells. Errors: why it does not open.
Result<std::string> contents(const std::string& folder) {
  PHUB_ASSIGN_OR_RETURN(const auto store, Store::open(folder));
  std::ostringstream text;
  PHUB_ASSIGN_OR_RETURN(const auto tenants, store->tenants());
  for (const Tenant& tenant : tenants) {
    const Quotas& quotas = tenant.quotas;
    text << tenant.id << tenant.name << ' ' << quotas.memory_mib << ' ' << quotas.connections << ' '
         << quotas.jobs << ' ' << quotas.weight << ' ' << quotas.disk_mib << '\n';
  }
  PHUB_ASSIGN_OR_RETURN(const auto tokens, store->tokens());
  for (const Token& token : tokens) {
    text << token.id << name_of(token.role) << token.tenant_id << token.tenant << token.label
         << std::string(token.hash.begin(), token.hash.end()) << token.created_unix_s << ' '
         << token.expires_unix_s << token.is_revoked << '\n';
  }
  PHUB_ASSIGN_OR_RETURN(const auto jobs, store->take_jobs());
  for (const StoredJob& job : jobs) {
    text << job.id << ' ' << job.epoch << ' ' << job.tenant_id << job.tenant << job.spec
         << std::string(job.nonce_hash->begin(), job.nonce_hash->end()) << job.snapshot << '\n';
  }
  PHUB_ASSIGN_OR_RETURN(const auto audits, store->last_audits(1000));
  for (const AuditRecord& record : audits) {
    text << record.unix_ms << record.principal << record.action << record.object << record.outcome
         << record.by_admin << '\n';
  }
  PHUB_ASSIGN_OR_RETURN(const std::uint64_t next_job, store->reserve_job_ids(1));
  PHUB_ASSIGN_OR_RETURN(const std::uint64_t next_token, store->next_token_id());
  PHUB_ASSIGN_OR_RETURN(const std::uint32_t next_tenant, store->add_tenant({.name = "next"}));
  text << next_job << ' ' << next_token << ' ' << next_tenant;
  return text.str();
}

std::string damaged(std::string bytes, unsigned seed) {
  std::mt19937 random(seed);
  const auto below = [&](std::size_t bound) { return random() % bound; };
  const std::size_t at = below(bytes.size());
  const std::size_t pages = bytes.size() / kPage;
  const std::size_t from = below(pages) * kPage;
  switch (seed % 8) {
    case 0:
      bytes[at] = static_cast<char>(bytes[at] ^ (1 << below(8)));
      break;
    case 1:  // where something is
      for (std::size_t i = at; i < bytes.size(); ++i) {
        if (bytes[i] == 0) continue;
        bytes[i] = static_cast<char>(bytes[i] ^ (1 << below(8)));
        break;
      }
      break;
    case 2:
      for (std::size_t i = at; i < std::min(at + 40, bytes.size()); ++i) {
        bytes[i] = static_cast<char>(random());
      }
      break;
    case 3:
      std::fill_n(bytes.begin() + static_cast<long>(from / 512 * 512), 512, '\0');
      break;
    case 4:
      bytes.resize(at);
      break;
    case 5:
      std::swap_ranges(bytes.begin() + static_cast<long>(from),
                       bytes.begin() + static_cast<long>(from + kPage),
                       bytes.begin() + static_cast<long>(below(pages) * kPage));
      break;
    case 6:
      bytes.replace(below(pages) * kPage, kPage, std::string(bytes, from, kPage));
      break;
    default: {  // a word that is still one
      const std::vector<std::string> words = {"red", "green", "blue", "somebody", "tenant", "ci"};
      const std::size_t found = bytes.find(words[below(words.size())], at);
      if (found != std::string::npos) ++bytes[found];
    }
  }
  return bytes;
}

}  // namespace

TEST_CASE("whatever is damaged in the state file, it is refused or tells what was written") {
  spdlog::set_level(spdlog::level::off);
  const TemporaryDirectory folder;
  const std::string good = folder.path / "good";
  fill(good);
  const std::string bytes = folder.read("good/state.sqlite");
  const auto open_with = [&](const std::string& state) {
    fs::create_directory(folder.path / "bad");
    folder.write("bad/state.sqlite", state);
    const auto found = contents(folder.path / "bad");
    fs::remove_all(folder.path / "bad");
    return found;
  };
  const std::string expected = open_with(bytes).value();
  unsigned refused = 0;
  for (unsigned seed = 0; seed < kSeeds; ++seed) {
    INFO("seed " << seed);
    const auto found = open_with(damaged(bytes, seed));
    if (found) {
      CHECK(*found == expected);
      continue;
    }
    ++refused;
    CHECK_THAT(found.error().message(), Contains("state.sqlite"));
  }
  CHECK(refused > kSeeds / 3);
}

TEST_CASE("a state file that lacks a table, or has one more, is refused with the cure") {
  spdlog::set_level(spdlog::level::off);
  const TemporaryDirectory folder;
  for (const std::string sql :
       {"DROP TABLE tokens", "DROP TABLE audit", "DROP TABLE counters", "DROP TABLE jobs",
        "CREATE TABLE other (a)", "DROP INDEX audit_by_admin", "DROP INDEX audit_by_principal",
        "PRAGMA user_version = 2", "PRAGMA user_version = 1", "PRAGMA user_version = 0",
        "DROP TRIGGER counters_removed; DELETE FROM counters", "PRAGMA user_version = -1"}) {
    INFO(sql);
    const std::string state = folder.path / "state";
    fill(state);
    run_sql(state + "/state.sqlite", "PRAGMA foreign_keys = OFF; " + sql);
    const auto refused = Tenancy::open({.state_folder = state});
    REQUIRE_FALSE(refused);
    CHECK_THAT(refused.error().message(), Contains("state.sqlite"));
    fs::remove_all(state);
  }
}

TEST_CASE("a state file that was emptied is damage, and one that is not there is a new one") {
  spdlog::set_level(spdlog::level::off);
  const TemporaryDirectory folder;
  const std::string state = folder.path / "state";
  fill(state);
  fs::resize_file(state + "/state.sqlite", 0);
  const auto refused = Tenancy::open({.state_folder = state});
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code() == Code::kDataLoss);
  CHECK_THAT(refused.error().message(), Contains("it is empty") && Contains("put back a copy"));
  fs::remove(state + "/state.sqlite");
  CHECK(Tenancy::open({.state_folder = state}));
}

TEST_CASE("a state file that is taken away while it is used takes no more changes") {
  spdlog::set_level(spdlog::level::off);
  const TemporaryDirectory folder;
  const std::string state = folder.path / "state";
  const auto opened = Tenancy::open({.state_folder = state});
  REQUIRE(opened);
  fs::rename(state, folder.path / "elsewhere");
  const auto refused = (*opened)->directory.create("red", {});
  REQUIRE_FALSE(refused);
  CHECK_THAT(refused.error().message(),
             Contains("removed or replaced") && Contains("put the folder back"));
  fs::rename(folder.path / "elsewhere", state);
  CHECK((*opened)->directory.create("red", {}));
}

TEST_CASE("the state of an earlier version is taken over: ids, tokens, jobs and the log") {
  spdlog::set_level(spdlog::level::off);
  const TemporaryDirectory folder;
  const std::string hash = "zeroblob(32)";
  run_sql(folder.path / "state.sqlite",
          std::string(kMigrations[0]) +
              "PRAGMA user_version = 1; PRAGMA journal_mode = WAL;"
              "INSERT INTO tenants VALUES (5, 'red', 7, 6, 5, 4, 3), (6, 'gone', 0, 0, 0, 1, 3);"
              "DELETE FROM tenants WHERE id = 6;"
              "INSERT INTO tokens VALUES (2, 'tenant', 'red', 'ci', zeroblob(32), 1, 0, 0),"
              " (3, 'admin', '', '', zeroblob(32), 1, 0, 1),"
              " (4, 'tenant', 'gone', '', zeroblob(32), 1, 0, 0);"
              "INSERT INTO jobs VALUES (8, 2, 'red', x'61', NULL, '');"
              "UPDATE counters SET value = 65;"
              "INSERT INTO audit VALUES (1, 9, 'p', 'tenant create', 'red', 'done'),"
              " (2, 9, 'p', 'job create', 'x', 'done');");
  const auto store = std::move(*Store::open(folder.path));
  const auto tenants = store->tenants().value();
  REQUIRE(tenants.size() == 2);
  CHECK(tenants[1].id == 5);
  CHECK(tenants[1].quotas.memory_mib == 7);
  const auto tokens = store->tokens().value();
  REQUIRE(tokens.size() == 2);
  CHECK(tokens[0].tenant_id == 5);
  CHECK(tokens[1].is_revoked);
  CHECK(store->take_jobs()->at(0).tenant == "red");
  CHECK(store->reserve_job_ids(1).value() == 65);
  CHECK(store->add_tenant({.name = "new"}).value() == 7);
  CHECK(store->next_token_id().value() == 5);
  CHECK(store->last_audits(9)->at(0).by_admin);
  CHECK_FALSE(store->last_audits(9)->at(1).by_admin);
}

TEST_CASE("what a tenant had cannot be written for one that is made again under its name") {
  const auto store = std::move(*Store::open(""));
  const std::uint32_t first = store->add_tenant({.name = "red"}).value();
  REQUIRE(store->remove_tenant(first).ok());
  REQUIRE(store->add_tenant({.name = "red"}));
  CHECK(store->add_job({.id = 1, .tenant_id = first, .spec = "x"}).code() ==
        Code::kFailedPrecondition);
  CHECK(store->add_token({.id = 1, .tenant_id = first}).code() == Code::kFailedPrecondition);
  CHECK(store->take_jobs()->empty());
  CHECK(store->tokens()->empty());
}

}  // namespace phub::testing
