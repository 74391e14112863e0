// A job's tcp streams: what is refused, what all workers have alike, and what they count as.
#include <catch2/catch.hpp>

#include "common/job/check.h"
#include "server/job/footprint.h"
#include "tests/support/server/carried_spec.h"
#include "tests/support/server/job_table_fixture.h"

namespace phub::testing {
namespace {

using Catch::Matchers::Contains;

JobSpec spread(std::uint32_t workers, std::uint32_t streams) {
  JobSpec spec = spec_of(workers);
  spec.tcp_streams = streams;
  return spec;
}

TEST_CASE("streams cross the control plane, and all workers have as many") {
  for (const std::uint32_t streams : {1U, 2U, 16U}) {
    const JobSpec spec = spread(2, streams);
    const auto read = carried(spec);
    REQUIRE(read);
    CHECK(read->tcp_streams == streams);
    CHECK(validate(spec).ok());
    CHECK(compare(spec, *read).ok());
    JobSpec other = spec;
    other.tcp_streams = 5;
    CHECK_THAT(
        compare(spec, other).message(),
        Contains("tcp_streams is " + std::to_string(streams) + " in the job but 5 in this join"));
  }
}

TEST_CASE("a job of one stream says nothing of it, as clients do that know of none") {
  control::JobSpec message;
  fill(spread(2, 1), message);
  CHECK(message.tcp_streams() == 0);
  CHECK(spec_from(message)->tcp_streams == 1);
}

TEST_CASE("too many streams are refused, and those of jobs that have none") {
  for (const std::uint32_t streams : {0U, 17U, UINT32_MAX}) {
    CHECK_THAT(validate(spread(2, streams)).message(),
               Contains("tcp_streams: " + std::to_string(streams) + ", allowed are 1 to 16"));
  }
  JobSpec spec = spread(2, 4);
  spec.racks = {{"a", 1}, {"b", 1}};
  CHECK(validate(spec).ok());
  spec.racks.clear();
  spec.rule = RuleKind::kSgd;
  spec.deterministic = false;
  spec.rounds = {.quorum = 1, .late = LatePushes::kAdd, .hogwild = true};
  CHECK_THAT(validate(spec).message(), Contains("tcp_streams: 4 contradicts rounds.hogwild"));
  spec.tcp_streams = 1;
  CHECK(validate(spec).ok());
}

TEST_CASE("each stream is a connection of its tenant's and of a core's") {
  TenantsInMemory tenants;
  REQUIRE(tenants.create("red", {.connections = 16}));
  JobTableFixture f(&tenants);
  REQUIRE(f.join(spread(2, 4), -1, "red"));
  CHECK(f.table.usage.of("red").connections == 2 * 4 * kCores);
  JobSpec more = spread(1, 1);
  more.name = "more";
  CHECK_THAT(f.join(more, -1, "red").error().message(),
             Contains("needs 2 connections") && Contains("tcp_streams"));

  FakeDataPlane data_plane(kCores);
  JobTable table({.connections_per_core = 15});
  table.attach(data_plane);
  const auto join = [&](const JobSpec& spec) {
    return table.members.join({.spec = std::make_shared<const JobSpec>(spec), .host = "h"});
  };
  const auto refused = join(spread(4, 4));
  CHECK(refused.error().code() == Code::kResourceExhausted);
  CHECK_THAT(refused.error().message(),
             Contains("tcp_streams: 4 of each of 4 workers are 16 connections to a core, which "
                      "takes 15") &&
                 Contains("connections_per_core"));
  CHECK(join(spread(3, 5)));
}

TEST_CASE("what streams take of memory is counted") {
  JobLayout layout;
  layout.workers = 3;
  PlanInput input;
  input.key_elements = {1'000'000};
  input.cores_per_server = {2};
  layout.plan = std::make_shared<const Plan>(*make_plan(input));
  layout.weight_decay = {0.0F};
  const Offered offered{.windows = false, .sealing = true, .staging = true};
  const std::uint64_t one = bytes_pinned(layout, offered);
  layout.tcp_streams = 4;
  const std::uint64_t four = bytes_pinned(layout, offered);
  // Of three streams more of three workers to two cores at least what seals their records.
  CHECK(four > one + std::uint64_t{3 * 3 * 2} * 128 * 1024);
  CHECK(staging_buffers(layout, 0) ==
        (layout.plan->core_chunks[0][0].size() + 2 * 4) * layout.workers + 1);
}

}  // namespace
}  // namespace phub::testing
