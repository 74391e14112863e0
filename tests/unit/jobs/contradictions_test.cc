// The table of contradictions, asked by jobs at random.
#include "common/job/contradictions.h"

#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <map>
#include <set>

#include "common/job/check.h"
#include "common/job/fields.h"
#include "common/job/message.h"
#include "tests/support/server/random_spec.h"

namespace phub::testing {
namespace {

using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;

constexpr int kJobs = 300'000;
constexpr int kTaken = 300;  // of these are checked further

std::string name_of(const Contradiction& row) {
  return fmt::format("{} x {}", row.used->what, row.beside->what);
}

// As another process reads it.
JobSpec carried(const JobSpec& spec) {
  control::JobSpec message;
  fill(spec, message);
  add_keys(spec.keys, message);
  control::JobSpec received;
  REQUIRE(received.ParseFromString(message.SerializeAsString()));
  return spec_from(received).value();
}

TEST_CASE("each row of the table refuses some job, by both fields and with a cure") {
  RandomSpec random(1);
  std::map<std::string, int> refused;
  int taken = 0;
  for (int i = 0; i < kJobs; ++i) {
    const JobSpec spec = random.next();
    const Contradiction* const row = first_contradiction(spec);
    if (row == nullptr) {
      if (taken++ > kTaken) continue;
      const Status status = validate(spec);
      INFO(status.to_string());
      CHECK(status.ok());
      CHECK(validate(carried(spec)).ok());
      continue;
    }
    if (refused[name_of(*row)]++ > 0) continue;
    const Status status = validate(spec);
    INFO(name_of(*row));
    CHECK(status.code() == Code::kInvalidArgument);
    CHECK_THAT(status.message(),
               StartsWith(std::string(row->used->field) + ": ") &&
                   Contains(fmt::format(" contradicts {}: ", row->beside->field)) &&
                   Contains(std::string(row->reason)) && Contains(std::string(row->cure)));
    // The server, which reads the message, says the same.
    CHECK(validate(carried(spec)).message() == status.message());
  }
  CHECK(taken > kJobs / 20);
  for (const Contradiction& row : contradictions()) {
    INFO(name_of(row));
    CHECK(refused[name_of(row)] > 0);
  }
}

TEST_CASE("a learning rate or momentum that the rule does not read is refused") {
  const auto refusal = [](RuleKind rule, const Hyper& hyper) {
    const JobSpec spec{.rule = rule, .hyper = hyper, .keys = {{"w", 1}}};
    return validate(spec).message();
  };
  const Hyper rate{.learning_rate = 0.5F, .gradient_scale = 0.0F};
  const Hyper momentum{.momentum = 0.5F, .gradient_scale = 0.0F};
  for (const RuleKind rule : {RuleKind::kSum, RuleKind::kMean}) {
    CHECK_THAT(refusal(rule, rate),
               StartsWith(fmt::format("learning_rate: 0.5 contradicts rule: {}", name_of(rule))) &&
                   Contains("which has no parameters to update; leave it out, or choose sgd"));
  }
  for (const RuleKind rule : {RuleKind::kSum, RuleKind::kMean, RuleKind::kSgd}) {
    CHECK_THAT(refusal(rule, momentum),
               StartsWith(fmt::format("momentum: 0.5 contradicts rule: {}", name_of(rule))) &&
                   Contains("which has none; leave it out, or choose momentum"));
  }
  CHECK(refusal(RuleKind::kSgd, rate).empty());
  for (const RuleKind rule : {RuleKind::kMomentum, RuleKind::kNesterov, RuleKind::kLars}) {
    CHECK(refusal(rule, momentum).empty());
  }
}

TEST_CASE("a message in which racks wait for no quorum is refused, with field and cure") {
  control::JobSpec message;
  fill(JobSpec(), message);
  CHECK(spec_from(message));
  message.mutable_rack_rounds();
  CHECK_THAT(spec_from(message).error().message(),
             StartsWith("rack_rounds.quorum: is missing") && Contains("leave rack_rounds out"));
  message.mutable_rack_rounds()->set_quorum(1);
  CHECK(spec_from(message)->rack_local.goes_on());
}

TEST_CASE("the table's rows are different, and name fields that a job has") {
  std::set<std::string> fields;
  for (const FieldInfo& field : job_fields()) fields.insert(field.name);
  std::set<std::string> rows;
  for (const Contradiction& row : contradictions()) {
    INFO(name_of(row));
    CHECK(rows.insert(name_of(row)).second);
    CHECK(fields.contains(std::string(row.used->field)));
    CHECK(fields.contains(std::string(row.beside->field)));
  }
}

TEST_CASE("a job joins itself, and no other one that differs in a field") {
  RandomSpec random(2);
  for (int i = 0; i < 2000; ++i) {
    const JobSpec one = random.next();
    const JobSpec other = random.next();
    CHECK(compare(one, carried(one)).ok());
    const Status status = compare(one, other);
    CHECK_THAT(status.message(), Contains("; all workers must agree"));
  }
}

}  // namespace
}  // namespace phub::testing
