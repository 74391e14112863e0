// Whoever is asked for a job that contradicts itself refuses it in the same words: the server, a
// client in C++, one that sets options by their names as C and Python do, and phubctl.
#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <map>
#include <string>

#include "common/job/check.h"
#include "common/job/contradictions.h"
#include "common/job/fields.h"
#include "common/job/message.h"
#include "server/phubctl/commands/commands.h"
#include "tests/support/server/random_spec.h"
#include "worker/client/named_options.h"
#include "worker/client/phub.h"

namespace phub::testing {
namespace {

constexpr char kNobody[] = "127.0.0.1:1";

// A job for each row of the table, which that row is the first to refuse.
std::map<const Contradiction*, JobSpec> refused_jobs() {
  std::map<const Contradiction*, JobSpec> jobs;
  RandomSpec random(3);
  for (int i = 0; i < 300'000 && jobs.size() < contradictions().size(); ++i) {
    JobSpec spec = random.next();
    spec.keys.clear();
    if (const Contradiction* const row = first_contradiction(spec)) jobs.emplace(row, spec);
  }
  return jobs;
}

// The fields that are not at their defaults, as texts.
std::map<std::string, std::string> texts_of(const JobSpec& spec) {
  control::JobSpec message;
  fill(spec, message);
  std::map<std::string, std::string> texts;
  for (const FieldInfo& field : job_fields()) {
    const std::string text = field_text(field.name, message);
    if (text != field_text(field.name, control::JobSpec())) texts[field.name] = text;
  }
  return texts;
}

std::string by_client(const JobSpec& spec) {
  const auto client =
      Client::connect({.servers = {kNobody}, .job = spec, .compress = {.encoding = spec.encoding}});
  return client ? "taken" : client.error().message();
}

std::string by_names(const JobSpec& spec) {
  client::NamedOptions named;
  REQUIRE(named.set("servers", kNobody).ok());
  for (const auto& [name, text] : texts_of(spec)) {
    const Status set = named.set(name == "name" ? "job" : name, text);
    INFO(set.to_string());
    REQUIRE(set.ok());
  }
  const auto options = named.options();
  REQUIRE(options);
  const auto client = Client::connect(*options);
  return client ? "taken" : client.error().message();
}

std::string by_phubctl(const JobSpec& spec) {
  phubctl::JobOptions options;
  for (const auto& [name, text] : texts_of(spec)) {
    options.settings.push_back({"--set " + name, name, text});
  }
  control::JobSpec message;
  REQUIRE(phubctl::spec_from(options, message).ok());
  return validate(spec_from(message).value()).message();
}

TEST_CASE("a job that contradicts itself is refused in the same words, whoever is asked") {
  const auto jobs = refused_jobs();
  REQUIRE(jobs.size() == contradictions().size());
  for (const auto& [row, spec] : jobs) {
    INFO(fmt::format("{} x {}", row->used->what, row->beside->what));
    const std::string words = validate(spec).message();
    CHECK(by_client(spec) == words);
    CHECK(by_names(spec) == words);
    CHECK(by_phubctl(spec) == words);
  }
}

TEST_CASE("what is taken is taken by all of them") {
  RandomSpec random(4);
  int taken = 0;
  for (int i = 0; i < 3000; ++i) {
    JobSpec spec = random.next();
    spec.keys.clear();
    if (!validate(spec).ok()) continue;
    ++taken;
    CHECK(by_client(spec) == "taken");
    CHECK(by_names(spec) == "taken");
    CHECK(by_phubctl(spec).empty());
  }
  CHECK(taken > 100);
}

}  // namespace
}  // namespace phub::testing
