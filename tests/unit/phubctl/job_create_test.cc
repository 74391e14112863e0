// The options of `job create`: what they set, and what they are refused with.
#include <catch2/catch.hpp>
#include <cmath>
#include <string>

#include "proto/control.pb.h"
#include "server/phubctl/commands/commands.h"

namespace phub::phubctl {
namespace {

using Catch::Matchers::Contains;

// Empty: they are not refused.
std::string refusal(const JobOptions& options) {
  control::JobSpec unused;
  const Status status = spec_from(options, unused);
  CHECK((status.ok() || status.code() == Code::kInvalidArgument));
  return status.message();
}

TEST_CASE("job create sets what belongs to adaptive rules, and refuses it with others") {
  JobOptions options;
  options.rule = "adamw";
  options.beta1 = 0.0;
  options.beta2 = 0.95;
  options.epsilon = 1e-6;
  control::JobSpec spec;
  REQUIRE(spec_from(options, spec).ok());
  CHECK(spec.rule() == control::RULE_ADAMW);
  CHECK((spec.has_beta1() && spec.beta1() == 0.0));
  CHECK(spec.beta2() == 0.95);
  CHECK(spec.epsilon() == 1e-6);
  JobOptions defaults;
  defaults.rule = "adam";
  control::JobSpec plain;
  REQUIRE(spec_from(defaults, plain).ok());
  CHECK_FALSE((plain.has_beta1() || plain.has_beta2()));

  options.rule = "adagrad";
  CHECK_THAT(refusal(options), Contains("--beta1: means nothing with --rule adagrad"));
  options.beta1.reset();
  CHECK_THAT(refusal(options), Contains("--beta2: means nothing with --rule adagrad"));
  options.beta2.reset();
  CHECK(refusal(options).empty());
  options.epsilon = 0.0;
  CHECK_THAT(refusal(options), Contains("--epsilon: must be above 0"));
  options.rule = "lars";
  CHECK_THAT(refusal(options), Contains("--epsilon: means nothing with --rule lars"));
  options.rule = "lamb";
  options.epsilon = 1e-6;
  options.beta1 = 0.8;
  options.keys = {"w:100", "b:10"};
  options.exclude_from_lars = {"b"};
  control::JobSpec lamb;
  REQUIRE(spec_from(options, lamb).ok());
  CHECK(lamb.rule() == control::RULE_LAMB);
  CHECK((!lamb.keys(0).exclude_from_lars() && lamb.keys(1).exclude_from_lars()));
  options.trust_coefficient = 0.5F;
  CHECK_THAT(refusal(options), Contains("--trust-coefficient: means nothing with --rule lamb"));
  options.trust_coefficient.reset();
  options.rule = "adam";
  CHECK_THAT(refusal(options), Contains("--exclude-from-lars: means nothing with --rule adam"));
}

TEST_CASE("job create sets a job's rounds where they have a quorum") {
  JobOptions options;
  control::JobSpec plain;
  REQUIRE(spec_from(options, plain).ok());
  CHECK_FALSE(plain.has_rounds());
  options.rounds = {.quorum = 3, .grace_ms = 5, .patience_ms = 700, .staleness = 0};
  control::JobSpec spec;
  REQUIRE(spec_from(options, spec).ok());
  CHECK(spec.rounds().quorum() == 3);
  CHECK(spec.rounds().grace_ms() == 5);
  CHECK(spec.rounds().patience_ms() == 700);
  CHECK((spec.rounds().has_staleness() && spec.rounds().staleness() == 0));
  CHECK(spec.rounds().late() == control::LATE_PUSHES_DROP);
  CHECK(spec.rounds().weight() == control::PUSH_WEIGHT_ONE);
  CHECK_FALSE(spec.rounds().turns());
  options.rounds = {.quorum = 1, .late = "add", .weight = "staleness", .turns = true};
  control::JobSpec other;
  REQUIRE(spec_from(options, other).ok());
  CHECK_FALSE(other.rounds().has_staleness());
  CHECK(other.rounds().late() == control::LATE_PUSHES_ADD);
  CHECK(other.rounds().weight() == control::PUSH_WEIGHT_STALENESS);
  CHECK(other.rounds().turns());
  options.rounds.late = "keep";
  CHECK_THAT(refusal(options), Contains("--late: \"keep\" is not known; allowed are drop, add"));
  options.rounds = {.quorum = 1, .weight = "age"};
  CHECK_THAT(refusal(options), Contains("--push-weight: \"age\""));
}

TEST_CASE("job create sets what belongs to lars, and refuses it with other rules") {
  JobOptions options;
  options.rule = "lars";
  options.keys = {"w:500:0.5", "b:20"};
  options.trust_coefficient = 0.002F;
  options.trust_epsilon = 1e-9F;
  options.exclude_from_lars = {"b"};
  control::JobSpec spec;
  REQUIRE(spec_from(options, spec).ok());
  CHECK(spec.rule() == control::RULE_LARS);
  CHECK(spec.trust_coefficient() == 0.002F);
  CHECK(spec.trust_epsilon() == 1e-9F);
  CHECK_FALSE(spec.keys(0).exclude_from_lars());
  CHECK(spec.keys(1).exclude_from_lars());

  JobOptions other = options;
  other.rule = "momentum";
  CHECK_THAT(refusal(other), Contains("--trust-coefficient: means nothing with --rule momentum"));
  other.trust_coefficient.reset();
  CHECK_THAT(refusal(other), Contains("--trust-epsilon: means nothing"));
  other.trust_epsilon.reset();
  CHECK_THAT(refusal(other), Contains("--exclude-from-lars: means nothing"));
  other = options;
  other.exclude_from_lars = {"nosuch"};
  CHECK_THAT(refusal(other), Contains("--exclude-from-lars: there is no --key \"nosuch\""));
  other = options;
  other.trust_coefficient = 0.0F;
  CHECK_THAT(refusal(other), Contains("--trust-coefficient: must be above 0"));
}

TEST_CASE("job create takes racks, whose workers are all workers") {
  JobOptions options;
  options.name = "wide";
  options.racks = "a:3,b:2";
  options.rack_shape = "chain";
  control::JobSpec spec;
  REQUIRE(spec_from(options, spec).ok());
  CHECK(spec.workers() == 5);
  REQUIRE(spec.racks_size() == 2);
  CHECK(spec.racks(1).name() == "b");
  CHECK(spec.racks(1).workers() == 2);
  CHECK(spec.rack_shape() == control::RACK_SHAPE_CHAIN);

  options.rack_shape = "ring";
  CHECK_THAT(refusal(options), Contains("--rack-shape: \"ring\" is not known") &&
                                   Contains("multicolour") && Contains(", auto"));
  options.rack_shape = "hybrid";
  options.rack_hybrid_bytes = 4096;
  options.rack_wire_type = "bf16";
  control::JobSpec hybrid;
  REQUIRE(spec_from(options, hybrid).ok());
  CHECK(hybrid.rack_shape() == control::RACK_SHAPE_HYBRID);
  CHECK(hybrid.rack_hybrid_bytes() == 4096);
  CHECK(hybrid.rack_wire_type() == control::WIRE_TYPE_BF16);
  options.rack_wire_type = "fp8";
  CHECK_THAT(refusal(options), Contains("--rack-wire-type: \"fp8\" is not known"));
  options.rack_wire_type = "fp32";
  options.rack_shape = "spread";
  CHECK_THAT(refusal(options),
             Contains("--rack-hybrid-bytes: means nothing with --rack-shape spread"));
  options.rack_hybrid_bytes.reset();
  options.racks = "a:x";
  CHECK_THAT(refusal(options), Contains("a:x"));
}

TEST_CASE("job create says what of racks' sums crosses") {
  JobOptions options;
  options.racks = "a:3,b:2";
  control::JobSpec whole;
  REQUIRE(spec_from(options, whole).ok());
  CHECK_FALSE(whole.has_rack_compress());
  options.rack_compress.density = 0.02F;
  control::JobSpec spec;
  REQUIRE(spec_from(options, spec).ok());
  CHECK(spec.rack_compress().density() == 0.02F);
  CHECK_FALSE(spec.rack_compress().has_dense_below());
  CHECK(spec.rack_compress().error_feedback());
  CHECK(spec.rack_compress().selector() == control::SELECTOR_HISTOGRAM);
  options.rack_compress.dense_below = 0;
  options.rack_compress.selector = "mstopk";
  options.rack_compress.drops_rest = true;
  REQUIRE(spec_from(options, spec).ok());
  CHECK(spec.rack_compress().has_dense_below());
  CHECK_FALSE(spec.rack_compress().error_feedback());
  CHECK(spec.rack_compress().selector() == control::SELECTOR_MSTOPK);

  options.rack_compress.selector = "largest";
  CHECK_THAT(refusal(options), Contains("--rack-selector: \"largest\" is not known"));
  options.rack_compress.selector = "exact";
  for (const float density : {0.0F, -1.0F, 1.5F, std::nanf("")}) {
    options.rack_compress.density = density;
    CHECK_THAT(refusal(options), Contains("--rack-compress: ") && Contains("above 0"));
  }
  options.rack_compress.density = 1.0F;
  CHECK(refusal(options).empty());
  options.rack_wire_type = "bf16";
  CHECK_THAT(refusal(options), Contains("contradicts --rack-wire-type bf16"));
}

}  // namespace
}  // namespace phub::phubctl
