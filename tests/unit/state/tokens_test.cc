// Tokens, roles, and what callers are taken for.
#include "server/access/tokens.h"

#include <spdlog/spdlog.h>

#include <catch2/catch.hpp>
#include <set>

#include "server/access/tenancy.h"
#include "tests/support/temporary_directory.h"

namespace phub::testing {
namespace {

using namespace server;  // NOLINT(google-build-using-namespace): what the test is about
using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;

struct Fixture {
  std::int64_t now = 1'000'000;
  std::unique_ptr<Store> store = std::move(*Store::open(""));
  Tokens tokens{*store, [this] { return now; }};
  AuditLog audit{*store};
  TenantDirectory tenants{*store};
  Tenant red = tenants.create("red", {}).value();
  Fixture() { spdlog::set_level(spdlog::level::off); }
};

TEST_CASE("a token is found by its text and by nothing that is almost its text") {
  Fixture f;
  const NewToken made = f.tokens.create(Role::kTenant, f.red, "ci", 0).value();
  CHECK_THAT(made.text, StartsWith("phub-1-"));
  CHECK(made.text.size() == 7 + 43);
  REQUIRE(f.tokens.find(made.text));
  CHECK(f.tokens.find(made.text)->tenant == "red");
  for (std::size_t i = 0; i < made.text.size(); ++i) {
    std::string wrong = made.text;
    wrong[i] = wrong[i] == 'A' ? 'B' : 'A';
    CHECK_FALSE(f.tokens.find(wrong));
  }
  for (const std::string& wrong :
       {std::string(), std::string("phub-"), std::string("phub-1"), std::string("phub-1-"),
        std::string("phub-99999999999999999999-x"), made.text + "x",
        made.text.substr(0, made.text.size() - 1), "phub-2-" + made.text.substr(7),
        "phub-01-" + made.text.substr(7) + "x", std::string("phub-1-\0", 8)}) {
    CHECK_FALSE(f.tokens.find(wrong));
  }
}

TEST_CASE("a token's id and its secret are parted by a dash, after the prefix") {
  Fixture f;
  const std::string text = f.tokens.create(Role::kAdmin, {}, "", 0)->text;
  std::string parted = text;
  parted[6] = '+';
  CHECK_FALSE(f.tokens.find(parted));
  CHECK_FALSE(f.tokens.find("fubb-" + text.substr(5)));
  CHECK(f.tokens.find(text));
}

TEST_CASE("tokens are for people and tenants, and end within a hundred years or never") {
  Fixture f;
  constexpr std::uint64_t kCentury = 100ULL * 365 * 24 * 3600;
  for (const Role role : {Role::kWorker, Role::kRack}) {
    CHECK_THAT(f.tokens.create(role, {}, "", 0).error().message(),
               Contains("tokens are for admin, tenant or observer"));
  }
  CHECK(f.tokens.create(Role::kAdmin, {}, "", kCentury));
  CHECK_THAT(f.tokens.create(Role::kAdmin, {}, "", kCentury + 1).error().message(),
             Contains("lifetime_seconds"));
  CHECK_THAT(f.tokens.create(Role::kAdmin, {}, "a/b", 0).error().message(), Contains("label"));
}

TEST_CASE("a token that was revoked stays so after a restart, and no other ends") {
  const TemporaryDirectory folder;
  std::string revoked;
  std::string kept;
  {
    const auto store = std::move(*Store::open(folder.path / "state"));
    Tokens tokens(*store);
    const NewToken made = tokens.create(Role::kAdmin, {}, "", 0).value();
    revoked = made.text;
    kept = tokens.create(Role::kObserver, {}, "", 0)->text;
    REQUIRE(tokens.revoke(made.token.id).ok());
  }
  const auto store = std::move(*Store::open(folder.path / "state"));
  Tokens tokens(*store);
  REQUIRE(tokens.load().ok());
  CHECK_FALSE(tokens.find(revoked));
  CHECK_FALSE(tokens.has_live(Role::kAdmin));
  CHECK(tokens.find(kept)->role == Role::kObserver);
}

TEST_CASE("the store has no secret, only a hash") {
  Fixture f;
  const NewToken made = f.tokens.create(Role::kAdmin, {}, "", 0).value();
  const Token stored = f.store->tokens()->at(0);
  CHECK(stored.hash == digest_of(made.text.substr(7)));
  std::set<std::string> secrets;
  for (int i = 0; i < 100; ++i) secrets.insert(random_secret().value());
  CHECK(secrets.size() == 100);
}

TEST_CASE("tokens end when they expire, are revoked, or their tenant goes") {
  Fixture f;
  const NewToken brief = f.tokens.create(Role::kTenant, f.red, "", 60).value();
  const NewToken second = f.tokens.create(Role::kTenant, f.red, "", 0).value();
  const NewToken other = f.tokens.create(Role::kObserver, {}, "", 0).value();
  f.now += 59;
  CHECK(f.tokens.find(brief.text));
  f.now += 1;
  CHECK_FALSE(f.tokens.find(brief.text));
  CHECK(f.tokens.find(other.text));
  REQUIRE(f.tokens.revoke(other.token.id).ok());
  CHECK_FALSE(f.tokens.find(other.text));
  CHECK(f.tokens.revoke(77).code() == Code::kNotFound);
  f.tokens.forget_tenant("red");
  CHECK_FALSE(f.tokens.find(second.text));
  CHECK_FALSE(f.tokens.has_live(Role::kObserver));
}

TEST_CASE("each role has its rights and no more") {
  struct Row {
    Role role;
    bool read, change, join, administer, join_as_rack;
  };
  for (const Row& row : {Row{Role::kAdmin, true, true, true, true, true},
                         Row{Role::kTenant, true, true, true, false, false},
                         Row{Role::kObserver, true, false, false, false, false},
                         Row{Role::kWorker, false, false, true, false, false},
                         Row{Role::kRack, false, false, false, false, true}}) {
    CHECK(has_right(row.role, Right::kRead) == row.read);
    CHECK(has_right(row.role, Right::kChangeJobs) == row.change);
    CHECK(has_right(row.role, Right::kJoin) == row.join);
    CHECK(has_right(row.role, Right::kAdminister) == row.administer);
    CHECK(has_right(row.role, Right::kJoinAsRack) == row.join_as_rack);
    CHECK(parse_role(name_of(row.role)) == row.role);
  }
  const Principal red{.role = Role::kTenant, .tenant = "red"};
  CHECK(can_see(red, "red"));
  CHECK_FALSE(can_see(red, "blue"));
  CHECK_FALSE(can_see({.role = Role::kWorker}, "default"));
  CHECK_FALSE(can_see({.role = Role::kRack}, "default"));
  CHECK(namespace_of(red, "") == "red");
  CHECK(namespace_of({.role = Role::kAdmin}, "") == "default");
}

TEST_CASE("a token decides, else the certificate, else nobody") {
  Fixture f;
  Access strict(true, f.tokens, f.audit);
  Access open(false, f.tokens, f.audit);
  const std::string token = f.tokens.create(Role::kTenant, f.red, "ci", 0)->text;
  const auto certificate = [](const std::string& unit) {
    return Credentials{.has_certificate = true, .certificate_unit = unit, .certificate_name = "al"};
  };
  Credentials both = certificate("admin");
  both.token = token;
  CHECK(strict.authenticate(both)->role == Role::kTenant);
  CHECK(strict.authenticate(both)->name == "token 1 (ci)");
  CHECK(strict.authenticate(certificate("admin"))->role == Role::kAdmin);
  CHECK(strict.authenticate(certificate("observer"))->role == Role::kObserver);
  CHECK(strict.authenticate(certificate("rack"))->role == Role::kRack);
  CHECK(open.authenticate(certificate("worker"))->role == Role::kWorker);
  CHECK(open.authenticate({})->role == Role::kAdmin);
  for (const std::string unit : {"worker", "server", "tenant", ""}) {
    CHECK(strict.authenticate(certificate(unit)).error().code() == Code::kUnauthenticated);
  }
  for (const std::string unit : {"server", "tenant", ""}) {
    CHECK(open.authenticate(certificate(unit)).error().code() == Code::kUnauthenticated);
  }
  both.token = "phub-1-wrong";
  CHECK(strict.authenticate(both).error().code() == Code::kUnauthenticated);
  CHECK(open.authenticate(both).error().code() == Code::kUnauthenticated);
  CHECK(strict.authenticate({}).error().code() == Code::kUnauthenticated);
  CHECK(strict.authenticate({.peer = "somebody"}).error().code() == Code::kUnauthenticated);
}

TEST_CASE("what is wrong with a token is not told") {
  Fixture f;
  Access access(true, f.tokens, f.audit);
  const NewToken expired = f.tokens.create(Role::kAdmin, {}, "", 1).value();
  const NewToken revoked = f.tokens.create(Role::kAdmin, {}, "", 0).value();
  f.now += 1;
  REQUIRE(f.tokens.revoke(revoked.token.id).ok());
  std::set<std::string> answers;
  for (const std::string& token : {expired.text, revoked.text, std::string("phub-1-x"),
                                   std::string("phub-9-x"), std::string("nonsense")}) {
    answers.insert(access.authenticate({.token = token}).error().to_string());
  }
  CHECK(answers.size() == 1);
  CHECK(access.refusals() == 5);
}

TEST_CASE("refusals are all counted, and audited once a second at most") {
  Fixture f;
  Access access(true, f.tokens, f.audit);
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < 1000;
       ++i) {  // each from somewhere else: none has spent its budget of records
    const std::string peer = "peer " + std::to_string(i);
    CHECK_FALSE(access.authenticate({.token = "x", .peer = peer}));
  }
  const auto took = std::chrono::steady_clock::now() - begin;
  CHECK(access.refusals() == 1000);
  const auto records = *f.audit.last(1000);
  REQUIRE_FALSE(records.empty());
  CHECK(records.size() <= static_cast<std::size_t>(1 + took / std::chrono::seconds(1)));
  CHECK(records.back().principal == "peer 0");
}

TEST_CASE("the first start makes an admin token, once, for the owner's eyes only") {
  spdlog::set_level(spdlog::level::off);
  const TemporaryDirectory folder;
  const std::string state = folder.path / "state";
  CHECK_THAT(Tenancy::open({.tokens_required = true}).error().message(), Contains("state_folder"));
  std::string text;
  {
    const auto first = Tenancy::open({.state_folder = state, .tokens_required = true});
    REQUIRE(first);
    text = folder.read("state/admin.token");
    text.pop_back();
    REQUIRE((*first)->tokens.find(text));
    CHECK((*first)->tokens.find(text)->role == Role::kAdmin);
    const auto mode = std::filesystem::status(state + "/admin.token").permissions();
    CHECK(mode == (std::filesystem::perms::owner_read | std::filesystem::perms::owner_write));
  }
  const auto second = Tenancy::open({.state_folder = state, .tokens_required = true});
  REQUIRE(second);
  CHECK(folder.read("state/admin.token") == text + "\n");
  CHECK((*second)->tokens.find(text));
}

}  // namespace
}  // namespace phub::testing
