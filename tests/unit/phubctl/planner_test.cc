// Which shape a job's racks take, from probes that are made up.
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "server/phubctl/planner/choice.h"
#include "tests/support/nested_names.h"

namespace phub::phubctl {
namespace {

using Catch::Contains;

constexpr double kGbit = 1e9 / 8;

// Racks a, b, ... with so many servers each; links all alike.
control::Probe probe_of(std::uint32_t racks, std::uint32_t servers = 1, float alpha = 50e-6F,
                        float byte = 1e-9F, float message = 1e-7F) {
  control::Probe probe;
  probe.set_unix_seconds(1'790'000'000);
  for (std::uint32_t rack = 0; rack < racks; ++rack) {
    for (std::uint32_t server = 0; server < servers; ++server) {
      control::ProbedServer& added = *probe.add_servers();
      added.set_rack(std::string(1, static_cast<char>('a' + rack)));
      added.set_address("10.0." + std::to_string(rack) + "." + std::to_string(server) + ":7077");
    }
  }
  for (std::uint32_t from = 0; from < racks * servers; ++from) {
    for (std::uint32_t to = 0; to < racks * servers; ++to) {
      if (from == to) continue;
      control::ProbedLink& link = *probe.add_links();
      link.set_from(from);
      link.set_to(to);
      link.set_alpha_seconds(alpha);
      link.set_seconds_per_byte(byte);
      link.set_message_seconds(message);
    }
  }
  return probe;
}

control::ProbedLink& link_of(control::Probe& probe, std::uint32_t from, std::uint32_t to) {
  for (control::ProbedLink& link : *probe.mutable_links()) {
    if (link.from() == from && link.to() == to) return link;
  }
  FAIL("no such link");
  return *probe.mutable_links(0);
}

PlannedJob job_of(std::uint32_t racks, double bytes = 100e6) {
  PlannedJob job;
  job.bytes = bytes;
  for (std::uint32_t rack = 0; rack < racks; ++rack) {
    job.racks.push_back({.name = std::string(1, static_cast<char>('a' + rack)), .workers = 4});
  }
  return job;
}

}  // namespace

TEST_CASE("racks whose names have levels are nested, as their sites' uplinks bind all else") {
  control::Probe probe = probe_of(8);
  PlannedJob job = job_of(8);
  CHECK(choose_shape(probe, job, {})->alternatives[5].obstacle ==
        "the racks' names have no levels: as spread");
  const std::vector<std::string> names = testing::nested_names(8);
  for (std::size_t rack = 0; rack < names.size(); ++rack) {
    probe.mutable_servers(static_cast<int>(rack))->set_rack(names[rack]);
    job.racks[rack].name = names[rack];
  }
  const NicRates fast{.worker = 1e12, .server = 1e12};  // so that links between racks bind
  const auto choice = choose_shape(probe, job, fast);
  REQUIRE(choice);
  CHECK(choice->shape == RackShape::kNested);
  CHECK(choice->taken().shape == "nested");
  CHECK(choice->alternatives[0].bound == "uplink of s0");
  job.racks[7].name = "alone";
  probe.mutable_servers(7)->set_rack("alone");
  const auto mixed = choose_shape(probe, job, fast);
  CHECK(mixed->alternatives[5].obstacle == "the racks' names have not all as many levels");
  CHECK(mixed->shape != RackShape::kNested);
}

TEST_CASE("racks that are alike are spread; of two all shapes are the same") {
  const auto four =
      choose_shape(probe_of(4), job_of(4), {.worker = 100 * kGbit, .server = 100 * kGbit});
  REQUIRE(four);
  REQUIRE(four->alternatives.size() == 7);
  CHECK(four->shape == RackShape::kSpread);
  CHECK(four->flat().seconds > 2 * four->taken().seconds);
  const auto two = choose_shape(probe_of(2), job_of(2), {});
  REQUIRE(two);
  CHECK(two->shape == RackShape::kSpread);
  CHECK(two->alternatives[1].seconds == Approx(two->taken().seconds));
}

TEST_CASE("a slow link between racks that are no neighbours makes a chain") {
  control::Probe probe = probe_of(6);
  link_of(probe, 0, 3).set_seconds_per_byte(50e-9F);
  const auto choice = choose_shape(probe, job_of(6), {});
  REQUIRE(choice);
  CHECK(choice->shape == RackShape::kChain);
  CHECK(choice->alternatives[0].bound == "link from a to d");
  SECTION("which workers that vote cannot have") {
    PlannedJob job = job_of(6);
    job.is_voted = true;
    const auto voted = choose_shape(probe, job, {});
    REQUIRE(voted);
    CHECK(voted->shape == RackShape::kSpread);
    CHECK(voted->alternatives[1].obstacle == "the workers' votes need spread");
  }
  SECTION("which a small model does not need: there latency counts") {
    const auto small = choose_shape(probe, job_of(6, 1000), {});
    REQUIRE(small);
    CHECK(small->shape == RackShape::kSpread);
  }
  SECTION("and words and JSON say so") {
    const std::string text = choice_text(*choice, job_of(6), "spread");
    CHECK_THAT(text, Contains("takes chain") && Contains("the job has spread") &&
                         Contains("times as long"));
    const auto json = nlohmann::json::parse(choice_json(*choice, job_of(6), "spread", 17));
    CHECK(json["shape"] == "chain");
    CHECK(json["has_shape"] == "spread");
    CHECK(json["probe_unix_seconds"] == 17);
    CHECK(json["alternatives"].size() == 7);
    CHECK(json["alternatives"][1]["seconds"] == Approx(choice->taken().seconds));
    CHECK(json["fused_key_bytes"] == choice->chunk_bytes / 4);
  }
}

namespace {

// Of racks of which two that are no neighbours have a slow link, with much latency.
control::Probe slow_link() {
  control::Probe probe = probe_of(6, 1, 2e-3F);
  link_of(probe, 0, 3).set_seconds_per_byte(50e-9F);
  return probe;
}

// 50 keys that share chunks, and eight that are large.
PlannedJob mixed_job() {
  PlannedJob job = job_of(6, 0.0);
  for (int i = 0; i < 50; ++i) job.key_bytes.push_back(8000);
  for (int i = 0; i < 8; ++i) job.key_bytes.push_back(12.5e6);
  for (const double bytes : job.key_bytes) job.bytes += bytes;
  return job;
}

}  // namespace

TEST_CASE("large keys go as in a chain where that is faster, small ones where they are sooner") {
  const auto choice = choose_shape(slow_link(), mixed_job(), {});
  REQUIRE(choice);
  const Alternative& spread = choice->alternatives[0];
  const Alternative& chain = choice->alternatives[1];
  const Alternative& hybrid = choice->alternatives[3];
  CHECK(choice->shape == RackShape::kHybrid);
  CHECK(hybrid.obstacle.empty());
  CHECK(hybrid.seconds < 1.01 * chain.seconds);
  CHECK(hybrid.seconds < 0.5 * spread.seconds);
  CHECK(hybrid.small_seconds == spread.small_seconds);
  CHECK(hybrid.small_seconds < chain.small_seconds);
  const KeyGroups& groups = choice->groups;
  CHECK(groups.small_keys == 50);
  CHECK(groups.large_keys == 8);
  CHECK(groups.small_bytes == Approx(50 * 8000));
  CHECK(groups.large_bytes == Approx(100e6));
  CHECK_THAT(choice_text(*choice, mixed_job(), ""),
             Contains("takes hybrid") && Contains("50 small key(s)") && Contains("either way"));
  const auto json = nlohmann::json::parse(choice_json(*choice, mixed_job(), "", 17));
  CHECK(json["hybrid"]["threshold_bytes"] == groups.threshold);

  SECTION("the threshold is where a key takes as long either way") {
    PlannedJob key = job_of(6, groups.threshold);
    const auto at = choose_shape(slow_link(), key, {});
    CHECK(at->alternatives[0].seconds == Approx(at->alternatives[1].seconds).epsilon(0.001));
    key.bytes = 2 * groups.threshold;
    const auto above = choose_shape(slow_link(), key, {});
    CHECK(above->alternatives[0].seconds > above->alternatives[1].seconds);
  }
  SECTION("a job that has a threshold is planned by that") {
    PlannedJob job = mixed_job();
    job.hybrid_bytes = 20e6;
    const auto all_small = choose_shape(slow_link(), job, {});
    CHECK(all_small->groups.large_keys == 0);
    CHECK(all_small->alternatives[3].seconds == Approx(spread.seconds));
    CHECK_THAT(choice_text(*all_small, job, "hybrid"), Contains("the job's threshold is 19.1 MiB"));
    job.hybrid_bytes = 0;  // keys that share chunks are small in any case
    CHECK(choose_shape(slow_link(), job, {})->groups.small_keys == 50);
  }
  SECTION("workers that vote cannot have it") {
    PlannedJob job = mixed_job();
    job.is_voted = true;
    const auto voted = choose_shape(slow_link(), job, {});
    CHECK(voted->shape == RackShape::kSpread);
    CHECK(voted->alternatives[3].obstacle == "the workers' votes need spread");
  }
}

TEST_CASE("hybrid is not taken where it is no other shape, or its keys are not known") {
  const auto alike = choose_shape(probe_of(6), mixed_job(), {});
  REQUIRE(alike);
  CHECK(alike->shape == RackShape::kSpread);
  CHECK(alike->alternatives[3].obstacle == "all keys are small: as spread");
  CHECK(alike->alternatives[3].seconds == Approx(alike->alternatives[0].seconds));
  CHECK_THAT(choice_text(*alike, mixed_job(), ""), Contains("no key, however large"));
  PlannedJob large = mixed_job();
  large.key_bytes.assign(8, 12.5e6);
  const auto chain = choose_shape(slow_link(), large, {});
  CHECK(chain->shape == RackShape::kChain);
  CHECK(chain->alternatives[3].obstacle == "all keys are large: as chain");
  PlannedJob unknown = mixed_job();
  unknown.key_bytes.clear();
  const auto none = choose_shape(slow_link(), unknown, {});
  CHECK(none->shape == RackShape::kChain);
  CHECK(none->alternatives[3].obstacle == "the sizes of the keys are not known");
}

TEST_CASE("flat is told where it is faster: where latency binds") {
  const auto choice = choose_shape(probe_of(3, 1, 1e-3F, 1e-10F), job_of(3, 1000), {});
  REQUIRE(choice);
  CHECK(choice->flat().seconds < choice->taken().seconds);
  CHECK_THAT(choice_text(*choice, job_of(3, 1000), ""), Contains("flat would be faster"));
}

TEST_CASE("the chunk grows with what a message costs") {
  const auto cheap = choose_shape(probe_of(4, 1, 50e-6F, 1e-9F, 1e-7F), job_of(4), {});
  const auto dear = choose_shape(probe_of(4, 1, 50e-6F, 1e-9F, 1e-3F), job_of(4), {});
  REQUIRE(cheap);
  REQUIRE(dear);
  CHECK(cheap->chunk_bytes == job_of(4).chunk_bytes);
  CHECK(dear->chunk_bytes >= 64 * 1024);
  CHECK(dear->chunk_seconds <= dear->taken().seconds);
  CHECK_THAT(choice_text(*dear, job_of(4), ""), Contains("(32.0 KiB now)"));
}

TEST_CASE("what is known of NICs is taken, what is not is assumed and told") {
  const auto assumed = choose_shape(probe_of(2), job_of(2), {});
  REQUIRE(assumed);
  CHECK(assumed->assumptions.size() == 4);
  const auto known =
      choose_shape(probe_of(2, 2), job_of(2), {.worker = 0.1 * kGbit, .server = 100 * kGbit});
  REQUIRE(known);
  CHECK(known->assumptions.size() == 2);  // that the two servers share an uplink, and of chunks
  CHECK(known->taken().bound == "workers' NICs in a");
  CHECK(known->taken().seconds == Approx(100e6 / (0.1 * kGbit)).epsilon(0.05));
}

TEST_CASE("half as many bytes on the wire are not half as many between racks") {
  PlannedJob job = job_of(4, 50e6);
  const auto as_fp32 = choose_shape(probe_of(4), job, {.worker = 1e12, .server = 1e12});
  job.bytes_an_element = 2;
  const auto as_bf16 = choose_shape(probe_of(4), job, {.worker = 1e12, .server = 1e12});
  REQUIRE(as_fp32);
  REQUIRE(as_bf16);
  CHECK(as_bf16->taken().seconds == Approx(1.5 * as_fp32->taken().seconds).epsilon(0.02));
  job.sum_bytes_an_element = 2;  // sums cross in 16 bits too
  const auto all = choose_shape(probe_of(4), job, {.worker = 1e12, .server = 1e12});
  REQUIRE(all);
  CHECK(all->taken().seconds == Approx(as_fp32->taken().seconds).epsilon(0.001));
}

TEST_CASE("compressed sums are faster where uplinks bind, and said not to be where they do not") {
  PlannedJob job = job_of(4);
  job.may_compress = true;
  const NicRates fast{.worker = 1e12, .server = 1e12};
  const auto offered = choose_shape(probe_of(4), job, fast);
  REQUIRE(offered);
  REQUIRE(offered->compressed);
  CHECK(offered->compressed->density == kOfferedDensity);
  CHECK(offered->compressed->is_faster());
  CHECK(offered->compressed->whole_seconds == offered->taken().seconds);
  CHECK_THAT(choice_text(*offered, job, ""),
             Contains("rack_compress would be faster: ") && Contains("(--rack-compress 0.01)"));

  job.rack_density = 0.02;
  const auto own = choose_shape(probe_of(4), job, fast);
  REQUIRE(own);
  CHECK(own->taken().seconds == own->compressed->seconds);
  CHECK(own->compressed->whole_seconds == offered->taken().seconds);
  // Up 4 % of fp32's bytes, down 16 %, where whole sums take 100 % each way.
  CHECK(own->taken().seconds == Approx(0.1 * offered->taken().seconds).epsilon(0.05));
  CHECK_THAT(choice_text(*own, job, ""),
             Contains("rack_compress is faster: ") && Contains("with 2 % of sums' elements"));
  const auto json = nlohmann::json::parse(choice_json(*own, job, "", 17));
  CHECK(json["rack_compress"]["is_faster"] == true);
  CHECK(json["rack_compress"]["is_set"] == true);

  const NicRates slow{.worker = 0.1 * kGbit, .server = 100 * kGbit};
  const auto bound_inside = choose_shape(probe_of(4), job, slow);
  REQUIRE(bound_inside);
  CHECK_FALSE(bound_inside->compressed->is_faster());
  CHECK_THAT(choice_text(*bound_inside, job, ""), Contains("rack_compress is not faster: "));

  job.rack_density = 0.0;
  CHECK_THAT(choice_text(*choose_shape(probe_of(4), job, slow), job, ""),
             Contains("rack_compress would not be faster: "));
  job.may_compress = false;
  const auto never = choose_shape(probe_of(4), job, fast);
  CHECK_FALSE(never->compressed);
  CHECK_THAT(choice_text(*never, job, ""), !Contains("rack_compress"));
}

TEST_CASE("keys that go whole all the same save nothing") {
  PlannedJob job = job_of(4, 0.0);
  job.may_compress = true;
  job.rack_density = 0.01;
  job.key_bytes.assign(100, 1e6);
  job.bytes = 100e6;
  const NicRates fast{.worker = 1e12, .server = 1e12};
  const double large = choose_shape(probe_of(4), job, fast)->taken().seconds;
  job.rack_dense_below = 250'001;  // elements of 4 bytes: each key is smaller
  const auto whole = choose_shape(probe_of(4), job, fast);
  CHECK(whole->taken().seconds > 10 * large);
  CHECK_FALSE(whole->compressed->is_faster());
  job.rack_dense_below = 250'000;
  CHECK(choose_shape(probe_of(4), job, fast)->taken().seconds == large);
  job.chunk_bytes = 4 << 20;  // they share chunks
  CHECK_FALSE(choose_shape(probe_of(4), job, fast)->compressed->is_faster());
}

TEST_CASE("a probe that does not know enough is told, with the cure") {
  const auto none = choose_shape({}, job_of(2), {});
  REQUIRE_FALSE(none);
  CHECK(none.error().code() == Code::kFailedPrecondition);
  CHECK_THAT(none.error().message(), Contains("phubctl probe"));
  const auto missing = choose_shape(probe_of(2), job_of(3), {});
  REQUIRE_FALSE(missing);
  CHECK_THAT(missing.error().message(), Contains("does not know rack c"));
  control::Probe broken = probe_of(2);
  broken.mutable_links()->RemoveLast();
  const auto unmeasured = choose_shape(broken, job_of(2), {});
  REQUIRE_FALSE(unmeasured);
  CHECK_THAT(unmeasured.error().message(), Contains("10.0.1.0:7077 of rack b to 10.0.0.0:7077"));
  control::Probe uneven = probe_of(2, 2);
  uneven.mutable_servers(1)->set_rack("x");
  const auto differs = choose_shape(uneven, job_of(2), {});
  REQUIRE_FALSE(differs);
  CHECK_THAT(differs.error().message(), Contains("rack a has 1 servers and rack b has 2"));
  const auto empty = choose_shape(probe_of(2), job_of(2, 0), {});
  REQUIRE_FALSE(empty);
  CHECK(empty.error().code() == Code::kInvalidArgument);
}

}  // namespace phub::phubctl
