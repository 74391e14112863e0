// What a job over racks waits for: a late rack, a slow link, or its own rack's workers.
#include <algorithm>
#include <catch2/catch.hpp>
#include <string>
#include <utility>

#include "tests/unit/phubctl/explain_case.h"

namespace phub::phubctl {
namespace {

// Rack a of a job over three racks; a round waits 30 ms for b, and never for c.
Case over_racks(double late_seconds) {
  Case c({.compute = 0.45, .push = 0.1, .wait = 0.05, .aggregate = 0.05, .reply = 0.05});
  control::JobSpec& spec = *c.job.mutable_spec();
  spec.set_workers(9);
  c.job.set_rack("a");
  for (const auto& [name, workers] : {std::pair("a", 4), std::pair("b", 3), std::pair("c", 2)}) {
    control::JobRack& rack = *spec.add_racks();
    rack.set_name(name);
    rack.set_workers(static_cast<std::uint32_t>(workers));
    if (name == std::string("a")) continue;
    control::RackLink& link = *c.job.add_rack_links();
    link.set_rack(name);
    link.set_bytes_up_sent(50U << 20U);
    link.set_bytes_up_received(25U << 20U);
    link.set_bytes_down_received(50U << 20U);
    link.set_bytes_down_sent(25U << 20U);
    control::RackTiming& timing = *c.job.mutable_timing()->add_racks();
    timing.set_rack(name);
    timing.set_last_share(name == std::string("b") ? 0.9 : 0.1);
    timing.set_late_seconds(late_seconds);
    timing.set_arrival_seconds(0.025);
    control::Member& member = *c.job.add_members();
    member.set_rack(name);
    member.set_transport("tcp");
  }
  c.job.mutable_statistics()->set_chunks(10);
  c.job.mutable_statistics()->set_chunks_completed(1000);
  c.job.mutable_timing()->set_racks_seconds(0.03);
  return c;
}

TEST_CASE("a rack of which nothing comes for most of the wait is late") {
  const Case c = over_racks(0.028);
  CHECK(c.topics() == Topics{"late rack"});
  const Reason found = c.find("late rack");
  CHECK_THAT(found.what, Contains("Rack b is late: nothing of it comes until 28.0 ms") &&
                             Contains("30.0 ms after that push") && Contains("90.0 %"));
  CHECK_THAT(found.cure, Contains("job explain resnet"));
  CHECK(found.seconds == Approx(0.03));
}

TEST_CASE("from one server late workers and a slow link look alike, and it says so") {
  const Case c = over_racks(0.005);
  CHECK(c.topics() == Topics{"other racks"});
  const Reason found = c.find("other racks");
  // 75 MiB in 100 rounds, each within 25 ms.
  CHECK_THAT(found.what, Contains("30.0 ms (30.0 %) for rack b") &&
                             Contains("768.0 KiB a round come from there at 30.0 MiB/s") &&
                             Contains("the first 5.0 ms after") && Contains("cannot tell"));
  CHECK_THAT(found.cure, Contains("--also HOST:PORT"));
}

TEST_CASE("with a look at the other rack's server it is its workers or the link between") {
  Case here = over_racks(0.005);
  Case there = over_racks(0.0);
  there.job.set_rack("b");
  const auto first = [&](double its_wait) {
    there.job.mutable_timing()->set_racks_seconds(its_wait);
    return explain(here.job, {.before = {}, .now = here.server, .in_other_racks = {there.job}})[0];
  };
  const Reason workers = first(0.002);
  CHECK(workers.topic == "late rack");
  CHECK_THAT(workers.what, Contains("workers of rack b are late") && Contains("waits 2.0 ms"));
  const Reason link = first(0.025);
  CHECK(link.topic == "uplink");
  CHECK_THAT(link.what, Contains("link to rack b bounds it") && Contains("30.0 MiB/s") &&
                            Contains("30.0 ms (30.0 %) of a round here and 25.0 ms there"));
  CHECK_THAT(link.cure, Contains("`rack_compress` (`phubctl job plan --explain`") &&
                            Contains("`rack_local_steps`"));
  here.job.mutable_spec()->mutable_rack_compress()->set_density(0.01F);
  CHECK_THAT(first(0.025).cure, Contains("a `rack_compress.density` below 0.01"));
}

TEST_CASE("other racks that are hardly waited for are no reason, and a part of the round") {
  Case c = over_racks(0.001);
  c.job.mutable_timing()->set_racks_seconds(0.009);
  const Topics topics = c.topics();
  for (const char* const topic : {"other racks", "late rack"}) {
    CHECK(std::find(topics.begin(), topics.end(), topic) == topics.end());
  }
  CHECK_THAT(round_sentence(c.job), Contains("wait for other racks 9.0 %"));
  CHECK_THAT(round_sentence(Case({}).job), !Contains("racks"));
}

TEST_CASE("a rack that is lost is named, and is no lost worker") {
  for (const std::uint32_t quorum : {0U, 2U}) {
    Case c = over_racks(0.005);
    c.job.mutable_spec()->mutable_rounds()->set_quorum(quorum);
    for (control::Member& member : *c.job.mutable_members()) {
      if (member.rack() != "b") continue;
      member.set_lost(true);
      member.set_host("10.0.0.2:7071");
    }
    CHECK(c.topics() == Topics{"lost rack"});
    CHECK_THAT(c.find("lost rack").what, Contains("without rack b (10.0.0.2:7071)"));
  }
}

TEST_CASE("a job over racks that waits tells of this rack's workers and of other racks") {
  Case c = over_racks(0.0);
  c.job.set_state(control::JOB_STATE_WAITING);
  c.job.mutable_members()->DeleteSubrange(3, 2);  // a worker and rack b
  CHECK_THAT(c.find("workers are missing").what,
             Contains("3/4 workers of rack a") && Contains("1 of 2 other racks"));
}

TEST_CASE("a rack's server is neither a worker that moves its gradients by tcp nor one behind") {
  Case c = over_racks(0.0);
  c.scale(*c.job.mutable_timing(), {.compute = 0.3, .push = 0.4, .wait = 0.1}, 0.1);
  const Topics topics = c.topics();
  CHECK(std::find(topics.begin(), topics.end(), "transport") == topics.end());
  for (int i = 0; i < 4; ++i) c.job.mutable_members(i)->set_pushes(70);  // racks: none
  c.server.set_uptime_seconds(8.0);
  control::ServerInfo before = c.server;
  before.set_uptime_seconds(4.0);
  const auto found = explain(c.job, {.before = before, .now = c.server, .job_before = c.job});
  REQUIRE(found.size() == 1);
  CHECK(found[0].topic == "standstill");
  CHECK_THAT(found[0].what,
             Contains("All workers of this rack have pushed as much") && Contains("other racks"));
}

}  // namespace
}  // namespace phub::phubctl
