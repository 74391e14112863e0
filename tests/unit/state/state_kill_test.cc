// A server that is killed at any moment: what it had acknowledged is there, and there is a way in.
#include <spdlog/spdlog.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <sstream>

#include "server/access/tenancy.h"
#include "tests/support/killed_process.h"

namespace phub::testing {
namespace {

using namespace server;  // NOLINT(google-build-using-namespace): what the test is about
namespace fs = std::filesystem;

constexpr unsigned kCallsMax = 2000;

// In memory where there is such a folder: a killed process loses nothing that it wrote there.
struct Folder {
  Folder() {
    const fs::path base = fs::exists("/dev/shm") ? "/dev/shm" : fs::temp_directory_path();
    std::string name = (base / "phub_kill_XXXXXX").string();
    REQUIRE(mkdtemp(name.data()) != nullptr);
    path = name;
  }
  ~Folder() { fs::remove_all(path); }
  fs::path path;
};

bool is_skipped(Killed killed) {
  if (killed != Killed::kCannot) return false;
  WARN("skipped: this system does not let a test trace its child");
  return true;
}

std::string first_line(const fs::path& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

// One change for each, acknowledged when it returns.
std::vector<std::function<Status(Tenancy&)>> changes() {
  const auto tenant_of = [](Tenancy& tenancy, const char* name) {
    return tenancy.directory.find(name).value();
  };
  return {
      [](Tenancy& t) { return t.directory.create("red", {.jobs = 1}).error(); },
      [=](Tenancy& t) {
        return t.tokens.create(Role::kTenant, tenant_of(t, "red"), "ci", 0).error();
      },
      [](Tenancy& t) { return t.store->reserve_job_ids(64).error(); },
      [](Tenancy& t) { return t.store->add_job({.id = 1, .tenant_id = 1, .spec = "a"}); },
      [](Tenancy& t) { return t.store->add_job({.id = 2, .tenant_id = 0, .spec = "b"}); },
      [](Tenancy& t) { return t.directory.set("red", {.memory_mib = 9}).error(); },
      [](Tenancy& t) { return t.store->remove_job(2); },
      [](Tenancy& t) { return t.tokens.create(Role::kObserver, {}, "", 0).error(); },
      [](Tenancy& t) { return t.tokens.revoke(2); },
      [](Tenancy& t) { return t.directory.remove("red"); },
      [](Tenancy& t) { return t.directory.create("red", {}).error(); },
  };
}

std::string contents_of(Store& store) {
  std::ostringstream text;
  const auto tenants = store.tenants().value();
  for (const Tenant& tenant : tenants) {
    text << tenant.id << tenant.name << tenant.quotas.jobs << tenant.quotas.memory_mib << ' ';
  }
  const auto tokens = store.tokens().value();
  for (const Token& token : tokens) {
    text << token.id << name_of(token.role) << token.tenant << token.is_revoked << ' ';
  }
  const auto jobs = store.take_jobs().value();
  for (const StoredJob& job : jobs) text << job.id << job.tenant << ' ';
  return text.str();
}

// The states after each number of changes.
std::vector<std::string> expected_states(const fs::path& folder) {
  std::vector<std::string> states;
  for (std::size_t made = 0; made <= changes().size(); ++made) {
    fs::remove_all(folder);
    const auto tenancy = std::move(*Tenancy::open({.state_folder = folder}));
    for (std::size_t i = 0; i < made; ++i) REQUIRE(changes()[i](*tenancy).ok());
    states.push_back(contents_of(*tenancy->store));
  }
  return states;
}

}  // namespace

TEST_CASE("a first start that is killed at any write leaves a way in for the next one") {
  spdlog::set_level(spdlog::level::off);
  const Folder folder;
  const fs::path state = folder.path / "state";
  const TenancyOptions options = {.state_folder = state, .tokens_required = true};
  for (unsigned call = 0; call < kCallsMax; ++call) {
    fs::remove_all(state);
    const Killed killed = run_and_kill(call, [&] { REQUIRE(Tenancy::open(options)); });
    if (is_skipped(killed)) return;
    INFO("killed at " << call);
    const auto next = Tenancy::open(options);
    INFO((next ? "" : next.error().message()));
    REQUIRE(next);
    const auto token = (*next)->tokens.find(first_line(state / "admin.token"));
    REQUIRE(token);
    CHECK(token->role == Role::kAdmin);
    CHECK_FALSE(fs::exists(state / "admin.token.tmp"));
    CHECK_FALSE(fs::exists(state / "state.sqlite.new"));
    if (killed == Killed::kNever) {
      CHECK(call > 10);
      return;
    }
  }
  FAIL("it never came to its end");
}

TEST_CASE("a server that is killed at any write has what it acknowledged, and nothing by halves") {
  spdlog::set_level(spdlog::level::off);
  const Folder folder;
  const fs::path state = folder.path / "state";
  const fs::path acknowledged = folder.path / "acknowledged";
  const auto states = expected_states(state);
  fs::remove_all(state);
  REQUIRE(Tenancy::open({.state_folder = state}));
  const fs::path begin = folder.path / "begin";
  fs::rename(state, begin);
  for (unsigned call = 0; call < kCallsMax; ++call) {
    fs::remove_all(state);
    fs::copy(begin, state);
    std::ofstream(acknowledged).close();
    const Killed killed = run_and_kill(call, [&] {
      const auto tenancy = std::move(*Tenancy::open({.state_folder = state}));
      for (const auto& change : changes()) {
        REQUIRE(change(*tenancy).ok());
        std::ofstream(acknowledged, std::ios::app) << '.' << std::flush;
      }
    });
    if (is_skipped(killed)) return;
    INFO("killed at " << call);
    const std::size_t done = first_line(acknowledged).size();
    const auto next = Store::open(state);
    INFO((next ? "" : next.error().message()));
    REQUIRE(next);
    const std::string found = contents_of(**next);
    const bool is_one_more = done + 1 < states.size() && found == states[done + 1];
    if (!is_one_more) CHECK(found == states[done]);
    if (killed == Killed::kNever) {
      CHECK(done == changes().size());
      return;
    }
  }
  FAIL("it never came to its end");
}

TEST_CASE("a reset lets an administrator in again and leaves the other tokens as they are") {
  spdlog::set_level(spdlog::level::off);
  const Folder folder;
  const fs::path state = folder.path / "state";
  CHECK(Tenancy::reset_admin_token(state).error().code() == Code::kNotFound);
  CHECK_FALSE(fs::exists(state));
  REQUIRE(Tenancy::open({.state_folder = state, .tokens_required = true}));
  const std::string first = first_line(state / "admin.token");
  fs::remove(state / "admin.token");
  REQUIRE(Tenancy::reset_admin_token(state));
  const std::string second = first_line(state / "admin.token");
  const auto tenancy = std::move(*Tenancy::open({.state_folder = state, .tokens_required = true}));
  CHECK(tenancy->tokens.find(first));
  REQUIRE(tenancy->tokens.find(second));
  CHECK(tenancy->tokens.find(second)->role == Role::kAdmin);
  const auto beside = Tenancy::reset_admin_token(state);
  REQUIRE_FALSE(beside);
  CHECK(beside.error().code() == Code::kFailedPrecondition);
}

}  // namespace phub::testing
