// What the audit log keeps, and what nobody can push out of it.
#include "server/access/audit.h"

#include <spdlog/spdlog.h>

#include <catch2/catch.hpp>

#include "common/base/visible.h"

namespace phub::testing {
namespace {

using namespace server;  // NOLINT(google-build-using-namespace): what the test is about
using Catch::Matchers::Contains;
using std::chrono::seconds;

struct AuditFixture {
  std::chrono::steady_clock::time_point now;
  std::unique_ptr<Store> store = std::move(*Store::open(""));
  AuditLog audit{*store, [this] { return now; }};
  AuditFixture() { spdlog::set_level(spdlog::level::off); }
  std::size_t count(const std::string& principal) {
    const auto all = audit.last(10'000).value();
    return static_cast<std::size_t>(
        std::count_if(all.begin(), all.end(),
                      [&](const AuditRecord& record) { return record.principal == principal; }));
  }
};

const Status kDenied(Code::kPermissionDenied, "no");

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    const std::size_t bytes = detail::first_code_point(text).bytes;
    if (bytes == 0) return false;
    text.remove_prefix(bytes);
  }
  return true;
}

}  // namespace

TEST_CASE("whatever a word is, its record is valid UTF-8 and at most 512 bytes") {
  AuditFixture f;
  for (const std::string& character :
       {std::string("a"), std::string("\xC3\xA4"), std::string("\xE2\x82\xAC"),
        std::string("\xF0\x9F\x98\x80"), std::string("\xFF"), std::string("\xC2\x9B")}) {
    for (std::size_t before = 0; before < 5; ++before) {
      std::string word(before, 'x');
      while (word.size() < 1200) word += character;
      f.audit.record({.name = word}, "act", word, {Code::kNotFound, word});
      const AuditRecord record = f.audit.last(1)->at(0);
      for (const std::string& shown : {record.principal, record.object, record.outcome}) {
        CHECK(is_utf8(shown));
        CHECK(shown.size() <= 512);
        CHECK(shown.size() > 508);
        CHECK(shown.find('\x9B') == std::string::npos);
      }
    }
  }
}

TEST_CASE("text that is no UTF-8 is told from text that is") {
  for (const char* const good :
       {"a", "\xC3\xA4", "\xE0\xA0\x80", "\xED\x9F\xBF", "\xF4\x8F\xBF\xBF"}) {
    CHECK(is_utf8(good));
  }
  for (const char* const bad : {"\x80", "\xC3", "\xC0\xAF", "\xE0\x80\x80", "\xED\xA0\x80",
                                "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\xE2\x82", "\xC3x"}) {
    CHECK_FALSE(is_utf8(bad));
  }
}

TEST_CASE("a flood of one principal's failures leaves the others' records where they are") {
  AuditFixture f;
  f.audit.record({.name = "alice"}, "job create", "x", kDenied);
  for (int i = 0; i < 5000; ++i) f.audit.record({.name = "flood"}, "job create", "x", kDenied);
  CHECK(f.count("flood") == AuditLog::kFailuresAtOnce);
  CHECK(f.count("alice") == 1);
  f.audit.record({.name = "bob"}, "job create", "x", kDenied);
  CHECK(f.count("bob") == 1);
  f.now += AuditLog::kFailureInterval;
  f.audit.record({.name = "flood"}, "job create", "x", kDenied);
  CHECK(f.count("flood") == AuditLog::kFailuresAtOnce + 1);
  CHECK_THAT(f.audit.last(1)->at(0).outcome, Contains("(4980 more were left out) no"));
}

TEST_CASE("floods under ever new names share one budget") {
  AuditFixture f;
  for (int i = 0; i < 5000; ++i) {
    f.audit.record({.name = "peer " + std::to_string(i)}, "authenticate", "x", kDenied);
  }
  const std::size_t most = AuditLog::kPrincipalsMax + AuditLog::kFailuresAtOnce;
  CHECK(f.audit.last(10'000)->size() <= most);
}

TEST_CASE("what a token does, and be it a thousand times, does not push out administrators' acts") {
  AuditFixture f;
  f.audit.record({.name = "root", .is_admin = true}, "tenant delete", "blue", {});
  for (int i = 0; i < 3000; ++i) f.audit.record({.name = "token 3"}, "job create", "x", {});
  CHECK(f.count("root") == 1);
  CHECK(f.count("token 3") == 1000);  // as many as the log in memory keeps of a kind
  for (int i = 0; i < 1500; ++i) {
    f.audit.record({.name = "root", .is_admin = true}, "tenant set", "blue", {});
  }
  CHECK(f.count("root") == 1000);
  CHECK(f.count("token 3") == 1000);
}

TEST_CASE("a token's flood of successful acts pushes out its own, not those of others") {
  AuditFixture f;
  for (int i = 0; i < 30; ++i) f.audit.record({.name = "quiet"}, "job create", "x", {});
  for (int i = 0; i < 3000; ++i) f.audit.record({.name = "flood"}, "job create", "x", {});
  CHECK(f.count("quiet") == 30);
  CHECK(f.count("flood") == 970);
  for (int i = 0; i < 3000; ++i) f.audit.record({.name = "second"}, "job create", "x", {});
  CHECK(f.count("quiet") == 30);
  CHECK(f.count("flood") >= 485);
  CHECK(f.count("second") >= 484);
  f.audit.record({.name = "new"}, "job create", "its only one", {});
  CHECK(f.count("new") == 1);
  CHECK(f.audit.last(10'000)->size() == 1000);
}

TEST_CASE("where nobody has two records, the oldest makes room") {
  AuditFixture f;
  const auto name = [](int i) { return "token " + std::to_string(i); };
  for (int i = 0; i < 1005; ++i) f.audit.record({.name = name(i)}, "job create", "x", {});
  CHECK(f.count(name(4)) == 0);
  CHECK(f.count(name(5)) == 1);
  CHECK(f.count(name(1004)) == 1);
}

}  // namespace phub::testing
