// Each cause of a slow step is found from made-up figures, and not where it is not.
#include "server/phubctl/explain/explain.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/unit/phubctl/explain_case.h"

namespace phub::phubctl {
namespace {

TEST_CASE("workers that compute most of the time clear the server") {
  const Case c({.compute = 0.83, .push = 0.05, .wait = 0.04, .aggregate = 0.04, .reply = 0.04});
  CHECK(c.topics() == Topics{"compute"});
  CHECK_THAT(c.find("compute").what, Contains("88.0 ms") && Contains("88.0 %") &&
                                         Contains("not the bottleneck") &&
                                         Contains("8.0 ms after the last push"));
}

TEST_CASE("a straggler is named with host, process, lateness and share of rounds") {
  Case c({.compute = 0.3, .push = 0.1, .wait = 0.5, .aggregate = 0.05, .reply = 0.05});
  control::WorkerTiming& late = *c.job.mutable_timing()->mutable_workers(2);
  late.set_last_share(0.83);
  late.set_late_seconds(0.048);
  CHECK(c.topics() == Topics{"straggler"});
  const Reason found = c.find("straggler");
  CHECK_THAT(found.what, Contains("Worker 2 (host-2, pid 4702)") && Contains("83.0 %") &&
                             Contains("48.0 ms") && Contains("256 rounds"));
  CHECK(found.seconds == Approx(0.048));
  // Last in most rounds, but by nothing.
  late.set_late_seconds(0.002);
  CHECK(c.topics() == Topics{"uneven work"});
}

TEST_CASE("one of two workers is a straggler only when it nearly always is the last") {
  Case c({.compute = 0.3, .push = 0.1, .wait = 0.5, .aggregate = 0.05, .reply = 0.05}, 2);
  control::WorkerTiming& late = *c.job.mutable_timing()->mutable_workers(1);
  late.set_late_seconds(0.048);
  late.set_last_share(0.55);
  CHECK(c.topics() == Topics{"uneven work"});
  late.set_last_share(0.95);
  CHECK(c.topics() == Topics{"straggler"});
}

TEST_CASE("snapshots that failed are told with the last reason, also of a job that is over") {
  Case c({.compute = 0.83, .push = 0.05, .wait = 0.04, .aggregate = 0.04, .reply = 0.04});
  control::SnapshotStatistics& snapshots = *c.job.mutable_statistics()->mutable_snapshots();
  snapshots.set_taken(5);
  CHECK(c.topics() == Topics{"compute"});
  snapshots.set_failed(2);
  snapshots.set_last_failure("the disk is full");
  CHECK(c.topics() == Topics{"compute", "snapshots fail"});
  CHECK_THAT(c.find("snapshots fail").what,
             Contains("Of 7 snapshots 2 failed") && Contains("last failure: the disk is full"));
  c.job.set_state(control::JOB_STATE_ENDED);
  CHECK(c.topics() == Topics{"ended", "snapshots fail"});
}

TEST_CASE("nobody is blamed for the first rounds, which are like no others") {
  Case c({.compute = 0.3, .push = 0.1, .wait = 0.5, .aggregate = 0.05, .reply = 0.05}, 2);
  control::WorkerTiming& late = *c.job.mutable_timing()->mutable_workers(0);
  late.set_last_share(1.0);
  late.set_late_seconds(0.048);
  c.job.mutable_timing()->set_rounds(1);
  CHECK(c.topics() == Topics{"too early"});
  CHECK_THAT(c.find("too early").what, Contains("Only 1 round is timed") && Contains("after 10"));
  c.job.mutable_timing()->set_rounds(9);
  CHECK(c.topics() == Topics{"too early"});
  c.job.mutable_timing()->set_rounds(10);
  CHECK(c.topics() == Topics{"straggler"});
}

TEST_CASE(
    "a job that stands still is not explained by the rounds before, and who is behind is named") {
  Case c({.compute = 0.3, .push = 0.1, .wait = 0.5, .aggregate = 0.05, .reply = 0.05});
  c.job.mutable_timing()->mutable_workers(0)->set_last_share(0.95);
  c.job.mutable_timing()->mutable_workers(0)->set_late_seconds(0.048);
  c.job.mutable_statistics()->set_chunks_completed(500);
  for (control::Member& member : *c.job.mutable_members()) member.set_pushes(70);
  c.job.mutable_members(2)->set_pushes(66);
  Looks looks{.before = c.server, .now = c.server, .job_before = c.job};
  looks.now.set_uptime_seconds(looks.before.uptime_seconds() + 0.5);  // five rounds
  const auto found = explain(c.job, looks);
  REQUIRE(found.size() == 1);
  CHECK(found[0].topic == "standstill");
  CHECK_THAT(found[0].what, Contains("500.0 ms") && Contains("5 rounds") &&
                                Contains("worker 2 (host-2, pid 4702)") && !Contains("worker 0"));
  // Less than three rounds tell nothing, nor does a job of which a chunk was completed.
  looks.now.set_uptime_seconds(looks.before.uptime_seconds() + 0.29);
  CHECK(explain(c.job, looks)[0].topic == "straggler");
  looks.now.set_uptime_seconds(looks.before.uptime_seconds() + 0.5);
  c.job.mutable_statistics()->set_chunks_completed(501);
  CHECK(explain(c.job, looks)[0].topic == "straggler");
}

TEST_CASE("what few rounds do show is said before that they are few") {
  Case c({.compute = 0.83, .push = 0.05, .wait = 0.04, .aggregate = 0.04, .reply = 0.04});
  c.job.mutable_timing()->set_rounds(3);
  CHECK(c.topics() == Topics{"compute", "too early"});
}

TEST_CASE("a wait without one worker to blame is uneven work") {
  const Case c({.compute = 0.40, .push = 0.15, .wait = 0.3, .aggregate = 0.08, .reply = 0.07});
  CHECK(c.topics() == Topics{"uneven work"});
  CHECK_THAT(c.find("uneven work").what, Contains("30.0 ms") && Contains("30.0 %"));
}

TEST_CASE("saturated cores are named with the other jobs there, unless they only poll") {
  Case c({.compute = 0.2, .push = 0.4, .wait = 0.05, .aggregate = 0.25, .reply = 0.1});
  control::CoreInfo& core = *c.server.mutable_cores(1);
  core.set_busy_share(0.97);
  Case::add_to(core, 2, "greedy", 9.0);
  CHECK(c.topics() == Topics{"core saturation"});
  CHECK_THAT(c.find("core saturation").what, Contains("Core 1 is busy 97.0 %") &&
                                                 Contains("\"greedy\" of tenant vision (75.0 %") &&
                                                 !Contains("ore 0 is"));
  c.server.set_uptime_seconds(400.0);  // the same work in a much longer time
  CHECK(c.topics() == Topics{"nothing stands out"});
}

TEST_CASE("a busy core without the job's chunks is no finding") {
  Case c({.compute = 0.2, .push = 0.4, .wait = 0.05, .aggregate = 0.25, .reply = 0.1});
  control::CoreInfo& core = *c.server.add_cores();
  core.set_busy_share(1.0);
  Case::add_to(core, 2, "other", 9.0);
  CHECK(c.topics() == Topics{"nothing stands out"});
}

TEST_CASE("pushes that wait for their turn are told with the jobs beside") {
  Case c({.compute = 0.2, .push = 0.4, .wait = 0.05, .aggregate = 0.25, .reply = 0.1});
  control::CoreInfo& core = *c.server.mutable_cores(0);
  core.mutable_jobs(0)->set_queued_pushes(1234);
  CHECK(c.topics() == Topics{"nothing stands out"});  // alone: a burst of its own
  Case::add_to(core, 2, "greedy", 1.0);
  CHECK_THAT(c.find("fair share").what, Contains("1,234 on core 0") && Contains("\"greedy\""));
  CHECK_THAT(c.find("fair share").cure, Contains("tenant vision"));
}

TEST_CASE("tcp is told with its reason where moving bytes costs, and shm where it would do") {
  Case c({.compute = 0.45, .push = 0.4, .wait = 0.05, .aggregate = 0.05, .reply = 0.05});
  control::Member& member = *c.job.mutable_members(3);
  member.set_transport("tcp");
  member.set_transport_reason("as asked for");
  CHECK(c.topics() == Topics{"transport"});
  CHECK_THAT(c.find("transport").what, Contains("1 of 4 workers") && Contains("\"as asked for\""));
  CHECK_THAT(c.find("transport").cure, Contains("verbs"));
  member.set_host("host-0");
  CHECK_THAT(c.find("transport").what, Contains("on the server's own host"));
  CHECK_THAT(c.find("transport").cure, Contains("moves no byte"));
}

TEST_CASE("a port that is down or counts errors is told") {
  Case c({.compute = 0.40, .push = 0.4, .wait = 0.05, .aggregate = 0.08, .reply = 0.07});
  for (auto& member : *c.job.mutable_members()) member.set_transport("verbs");
  control::PortInfo& port = *c.server.add_ports();
  port.set_device("mlx5_0");
  port.set_port(1);
  port.set_state("active");
  CHECK(c.topics() == Topics{"nothing stands out"});
  control::PortCounter& counter = *port.add_counters();
  counter.set_name("out_of_sequence");
  counter.set_kind("losses");
  counter.set_value(77);
  CHECK_THAT(c.find("network port").what,
             Contains("mlx5_0/1 has counted 77 out_of_sequence (losses)"));
  port.set_state("down");
  CHECK_THAT(c.find("network port").what, Contains("mlx5_0/1 is down"));
}

TEST_CASE("cores that sleep are told where rounds are short") {
  Case c({.compute = 0.3, .push = 0.4, .wait = 0.05, .aggregate = 0.15, .reply = 0.1});
  Case::scale(*c.job.mutable_timing(), {.compute = 0.3, .push = 0.5}, 0.0008);
  CHECK_THAT(c.find("waiting policy").what, Contains("800 us") && Contains("adaptive"));
  c.server.set_waiting("poll");
  CHECK(c.topics() == Topics{"nothing stands out"});
}

TEST_CASE("pushes are the backward pass's unless a core or a transport explains them") {
  Case c({.compute = 0.24, .push = 0.6, .wait = 0.08, .aggregate = 0.04, .reply = 0.04});
  CHECK(c.topics() == Topics{"compute"});
  CHECK_THAT(c.find("compute").what, Contains("84.0 ms") && Contains("backward pass overlaps"));
  c.job.mutable_members(0)->set_transport("tcp");
  CHECK(c.topics() == Topics{"transport"});
}

TEST_CASE("the most expensive finding comes first, and text and JSON say the same") {
  Case c({.compute = 0.51, .push = 0.2, .wait = 0.2, .aggregate = 0.05, .reply = 0.04});
  CHECK(c.topics() == Topics{"compute", "uneven work"});
  CHECK_THAT(round_sentence(c.job), Contains("\"resnet\" takes 100.0 ms") &&
                                        Contains("compute 51.0 %") &&
                                        Contains("wait for the slowest 20.0 %"));
  const std::string text = explanation_text(c.job, {.before = {}, .now = c.server});
  CHECK_THAT(text, Contains("1. The workers compute") && Contains("2. The workers wait") &&
                       Contains("   Cure: "));
  const auto json = nlohmann::json::parse(explanation_json(c.job, {.before = {}, .now = c.server}));
  CHECK(json["findings"].size() == 2);
  CHECK(json["findings"][0]["topic"] == "compute");
  CHECK(json["timing"]["rounds"] == 256);
}

}  // namespace
}  // namespace phub::phubctl
