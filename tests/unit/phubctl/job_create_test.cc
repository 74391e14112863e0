// The options of `job create`: what they set, and what they are refused with.
#include <catch2/catch.hpp>
#include <string>
#include <utility>
#include <vector>

#include "common/job/check.h"
#include "common/job/message.h"
#include "proto/control.pb.h"
#include "server/phubctl/commands/commands.h"
#include "tests/support/temporary_directory.h"

namespace phub::phubctl {
namespace {

using Catch::Matchers::Contains;
using Fields = std::vector<std::pair<std::string, std::string>>;

JobOptions options_of(const Fields& fields) {
  JobOptions options;
  options.name = "demo";
  for (const auto& [field, text] : fields) options.settings.push_back({"--flag", field, text});
  return options;
}

control::JobSpec spec_of(const Fields& fields) {
  control::JobSpec spec;
  const Status status = spec_from(options_of(fields), spec);
  INFO(status.to_string());
  CHECK(status.ok());
  return spec;
}

// Empty: it is not refused.
std::string refusal_of(const JobOptions& options) {
  control::JobSpec spec;
  Status status = spec_from(options, spec);
  if (status.ok()) status = phub::spec_from(spec).error();
  if (status.ok()) status = validate(phub::spec_from(spec).value());
  CHECK((status.ok() || status.code() == Code::kInvalidArgument));
  return status.message();
}
std::string refusal(const Fields& fields) { return refusal_of(options_of(fields)); }

TEST_CASE("job create sets fields in the order in which they are given") {
  const control::JobSpec plain = spec_of({});
  CHECK(plain.name() == "demo");
  CHECK(plain.workers() == 1);
  CHECK_FALSE((plain.has_beta1() || plain.has_rounds() || plain.has_rack_compress()));
  const control::JobSpec spec = spec_of({{"rule", "adamw"},
                                         {"beta1", "0"},
                                         {"workers", "4"},
                                         {"rounds.quorum", "3"},
                                         {"rounds.staleness", "0"},
                                         {"order", "deterministic"},
                                         {"order", "arrival"}});
  CHECK(spec.rule() == control::RULE_ADAMW);
  CHECK((spec.has_beta1() && spec.beta1() == 0.0));
  CHECK(spec.order() == control::ORDER_ARRIVAL);
  CHECK((spec.rounds().has_staleness() && spec.rounds().staleness() == 0));
  const control::JobSpec racks = spec_of({{"racks", "a:3,b:2"}, {"rack_shape", "chain"}});
  CHECK(racks.workers() == 5);
  CHECK(racks.racks(1).workers() == 2);
}

TEST_CASE("job create names the flag of a value that is none") {
  CHECK_THAT(refusal({{"rounds.late", "keep"}}), Contains("--flag: \"keep\" is not drop or add"));
  CHECK_THAT(refusal({{"rack_shape", "ring"}}), Contains("--flag: \"ring\" is not spread"));
  CHECK_THAT(refusal({{"racks", "a:x"}}), Contains("--flag: \"a:x\""));
  CHECK_THAT(refusal({{"rule_", "sum"}}), Contains("did you mean rule?"));
}

TEST_CASE("job create refuses what servers refuse, in their words, and asks none") {
  CHECK_THAT(refusal({{"rule", "adagrad"}, {"beta1", "0"}}),
             Contains("beta1: 0 contradicts rule: adagrad"));
  CHECK_THAT(refusal({{"rule", "momentum"}, {"trust_coefficient", "0.5"}}),
             Contains("trust_coefficient: 0.5 contradicts rule: momentum"));
  const Fields racks = {{"racks", "a:3,b:2"}};
  CHECK(refusal(racks).empty());
  const auto beside = [&racks](Fields more) {
    more.insert(more.begin(), racks.begin(), racks.end());
    return refusal(more);
  };
  CHECK(beside({{"rack_compress.density", "1"}}).empty());
  CHECK_THAT(beside({{"rack_compress.density", "0.5"}, {"rack_wire_type", "bf16"}}),
             Contains("contradicts rack_wire_type: bf16"));
  CHECK_THAT(beside({{"rack_hybrid_bytes", "4096"}}), Contains("contradicts rack_shape: spread"));
  for (const char* const density : {"0", "-1", "1.5", "nan"}) {
    CHECK_THAT(beside({{"rack_compress.density", density}}), Contains("rack_compress.density: "));
  }
  CHECK_THAT(beside({{"rack_compress.selector", "exact"}}), Contains("density: is missing"));
}

TEST_CASE("job create excludes keys from the trust ratio by their names") {
  JobOptions options = options_of({{"rule", "lamb"}});
  options.keys = {"w:100:0.5", "b:10"};
  options.exclude_from_lars = {"b"};
  control::JobSpec lamb;
  REQUIRE(spec_from(options, lamb).ok());
  CHECK(lamb.keys(0).weight_decay() == 0.5F);
  CHECK((!lamb.keys(0).exclude_from_lars() && lamb.keys(1).exclude_from_lars()));
  options.settings[0].text = "adam";
  CHECK_THAT(refusal_of(options), Contains("keys[1].exclude_from_lars"));
  options.exclude_from_lars = {"nosuch"};
  CHECK_THAT(refusal_of(options), Contains("--exclude-from-lars: there is no --key \"nosuch\""));
}

TEST_CASE("job create sets fields in place of a file's") {
  const TemporaryDirectory folder;
  folder.write("job.textproto", "name: \"other\" workers: 3 rule: RULE_SUM");
  JobOptions options = options_of({{"rule", "mean"}});
  options.file = folder.path / "job.textproto";
  control::JobSpec spec;
  REQUIRE(spec_from(options, spec).ok());
  CHECK(spec.name() == "demo");
  CHECK(spec.workers() == 3);
  CHECK(spec.rule() == control::RULE_MEAN);
  folder.write("few.textproto",
               "racks { name: \"a\" workers: 2 } racks { name: \"b\" workers: 3 }");
  options.file = folder.path / "few.textproto";
  control::JobSpec racks;
  REQUIRE(spec_from(options, racks).ok());
  CHECK(racks.workers() == 5);  // those of the racks
  folder.write("few.textproto", "rule: RULE_SUM");
  control::JobSpec alone;
  REQUIRE(spec_from(options, alone).ok());
  CHECK(alone.workers() == 1);
}

}  // namespace
}  // namespace phub::phubctl
