// A job over racks as text: its trees, its links, and what its rounds wait for.
#include <catch2/catch.hpp>
#include <string>

#include "proto/control.pb.h"
#include "server/phubctl/commands/commands.h"
#include "server/phubctl/explain/racks.h"

namespace phub::phubctl {
namespace {

using Catch::Matchers::Contains;

// Rack b of three in a chain, after 10 rounds of half a second.
control::JobInfo job_over_racks() {
  control::JobInfo job;
  job.set_rack("b");
  job.mutable_spec()->set_rack_shape(control::RACK_SHAPE_CHAIN);
  for (const char* const name : {"a", "b", "c"}) {
    control::JobRack& rack = *job.mutable_spec()->add_racks();
    rack.set_name(name);
    rack.set_workers(2);
    if (name == std::string("b")) continue;
    control::RackLink& link = *job.add_rack_links();
    link.set_rack(name);
    link.set_workers(2);
    link.set_bytes_up_sent(10U << 20U);
    link.set_bytes_down_sent(30U << 20U);
    link.set_bytes_down_received(20U << 20U);
  }
  job.mutable_statistics()->set_chunks(4);
  job.mutable_statistics()->set_chunks_completed(40);
  control::JobTiming& timing = *job.mutable_timing();
  timing.set_round_seconds(0.5);
  timing.set_racks_seconds(0.1);
  control::RackTiming& rack = *timing.add_racks();
  rack.set_rack("c");
  rack.set_last_share(1.0);
  rack.set_late_seconds(0.02);
  rack.set_arrival_seconds(0.08);
  return job;
}

TEST_CASE("a job over racks shows its trees, the rate of each link and what rounds wait for") {
  const control::JobInfo job = job_over_racks();
  const std::string text = racks_text(job);
  CHECK_THAT(text, Contains("tree 1 of 3\n  a\n  `- c\n     `- b (here)\n"));
  CHECK_THAT(text, Contains("tree 3 of 3\n  c\n  `- b (here)\n     `- a\n"));
  CHECK_THAT(text, Contains("8.0 MiB/s") && Contains("4.0 MiB/s") && Contains("80.0 ms"));
  CHECK_THAT(text, Contains("a round waits 100.0 ms (20.0 %) for other racks, most often for c"));
  CHECK(workers_text(job) == "0/2");

  control::JobInfo alone;
  alone.mutable_spec()->set_workers(4);
  alone.add_members();
  CHECK(racks_text(alone).empty());
  CHECK(workers_text(alone) == "1/4");
}

TEST_CASE("hybrid's trees are drawn by what they are for") {
  control::JobInfo job = job_over_racks();
  job.mutable_spec()->set_rack_shape(control::RACK_SHAPE_HYBRID);
  const std::string text = racks_text(job);
  CHECK_THAT(text, Contains("keys that are small:\ntree 1 of 3\n  a\n  |- b (here)\n  `- c\n"));
  CHECK_THAT(text, Contains("others:\ntree 1 of 3\n  a\n  `- c\n     `- b (here)\n"));
  CHECK_THAT(text, Contains("and 1 more, each with another root\nothers:"));
}

TEST_CASE("more racks than the eye can follow are not drawn, and their links are listed") {
  control::JobInfo job = job_over_racks();
  for (int i = 0; i < 14; ++i) job.mutable_spec()->add_racks()->set_name(std::to_string(i));
  const std::string text = racks_text(job);
  CHECK_THAT(text, !Contains("tree 1") && Contains("LINK TO RACK"));
}

}  // namespace
}  // namespace phub::phubctl
