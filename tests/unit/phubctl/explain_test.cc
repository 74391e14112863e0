// Each cause of a slow step is found from made-up figures, and not where it is not.
#include "server/phubctl/explain/explain.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace phub::phubctl {
namespace {

using Catch::Matchers::Contains;

// Shares of a round of 100 ms.
struct Parts {
  double compute = 0.60;
  double push = 0.20;
  double wait = 0.05;
  double aggregate = 0.08;
  double reply = 0.07;
};

struct Case {
  control::JobInfo job;
  control::ServerInfo server;

  explicit Case(const Parts& parts, std::uint32_t workers = 4) {
    job.set_job_id(1);
    job.set_tenant("vision");
    job.set_state(control::JOB_STATE_RUNNING);
    job.mutable_spec()->set_name("resnet");
    job.mutable_spec()->set_workers(workers);
    control::JobTiming& timing = *job.mutable_timing();
    timing.set_rounds(256);
    scale(timing, parts, 0.1);
    timing.set_core_seconds(0.02);
    for (std::uint32_t i = 0; i < workers; ++i) {
      control::WorkerTiming& worker = *timing.add_workers();
      worker.set_worker_index(i);
      worker.set_last_share(1.0 / workers);
      worker.set_late_seconds(0.001);
      control::Member& member = *job.add_members();
      member.set_worker_index(i);
      member.set_host("host-" + std::to_string(i));
      member.set_process_id(4700 + i);
      member.set_transport("shm");
    }
    server.set_uptime_seconds(4.0);
    server.set_waiting("adaptive (spin 50, yield 20, then sleep)");
    for (std::uint32_t i = 0; i < 2; ++i) {
      control::CoreInfo& core = *server.add_cores();
      core.set_core(i);
      core.set_busy_share(0.5);
      add_to(core, 1, "resnet", 3.0);
    }
  }

  static void scale(control::JobTiming& timing, const Parts& parts, double round) {
    timing.set_round_seconds(round);
    timing.set_compute_seconds(round * parts.compute);
    timing.set_push_seconds(round * parts.push);
    timing.set_wait_seconds(round * parts.wait);
    timing.set_aggregate_seconds(round * parts.aggregate);
    timing.set_reply_seconds(round * parts.reply);
  }

  static control::CoreJob& add_to(control::CoreInfo& core, std::uint64_t id,
                                  const std::string& name, double busy_seconds) {
    control::CoreJob& job = *core.add_jobs();
    job.set_job_id(id);
    job.set_name(name);
    job.set_tenant("vision");
    job.set_busy_seconds(busy_seconds);
    return job;
  }

  std::vector<std::string> topics() const {
    std::vector<std::string> found;
    for (const Reason& finding : explain(job, {.before = {}, .now = server}))
      found.push_back(finding.topic);
    return found;
  }
  Reason find(const std::string& topic) const {
    for (const Reason& finding : explain(job, {.before = {}, .now = server})) {
      CHECK_FALSE(finding.what.empty());
      CHECK_FALSE(finding.cure.empty());
      if (finding.topic == topic) return finding;
    }
    FAIL("no finding about " << topic);
    return {};
  }
};

using Topics = std::vector<std::string>;

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

TEST_CASE("steps that were left out are told, when they are more than a loss scale needs") {
  Case c({.compute = 0.49, .push = 0.22});
  c.job.mutable_statistics()->set_rounds(1000);
  c.job.mutable_statistics()->set_rounds_skipped(9);
  CHECK(c.topics() == Topics{"nothing stands out"});
  c.job.mutable_statistics()->set_rounds_skipped(200);
  CHECK(c.topics() == Topics{"skipped steps"});
  CHECK_THAT(c.find("skipped steps").what, Contains("200 of 1000") && Contains("20.0 %"));
  c.job.mutable_statistics()->set_rounds_skipped(0);
  c.job.mutable_statistics()->set_updates_skipped(3);
  CHECK_THAT(c.find("skipped steps").what, Contains("3 updates of single chunks"));
}

TEST_CASE("who made the first value that is not finite is told before all else") {
  Case c({.compute = 0.49, .push = 0.22});
  const auto find = [&](int worker, std::uint64_t round) {
    control::WorkerValues& values = *c.job.mutable_members(worker)->mutable_values();
    values.set_pushes(40);
    values.mutable_first()->set_key("conv1");
    values.mutable_first()->set_element(5);
    values.mutable_first()->set_round(round);
    values.mutable_first()->set_value("NaN");
    *values.mutable_last() = values.first();
  };
  find(3, 18);
  find(2, 17);
  find(1, 19);
  CHECK(c.topics().front() == "not finite");
  CHECK_THAT(c.find("not finite").what,
             Contains("Worker 2 (host-2, pid 4702) was the first") &&
                 Contains("NaN in key \"conv1\", element 5, in round 17") &&
                 Contains("40 of its pushes") && Contains("2 more did so later"));
  find(0, 17);
  CHECK_THAT(c.find("not finite").what,
             Contains("1 more did so in the same round") && Contains("2 more did so later"));
  c.job.mutable_spec()->mutable_rounds()->set_quorum(3);
  CHECK(c.topics().front() == "not finite");
}

TEST_CASE("whose push had not its checksum is told in place of all else") {
  Case c({.compute = 0.49, .push = 0.22});
  const auto find = [&](int worker, std::uint64_t round) {
    control::WorkerCorruption& found = *c.job.mutable_members(worker)->mutable_corruption();
    found.set_pushes(1);
    found.set_key("conv1");
    found.set_round(round);
  };
  find(3, 18);
  find(2, 17);
  c.job.set_state(control::JOB_STATE_FAILED);
  CHECK(c.topics() == Topics{"corrupt"});
  CHECK_THAT(c.find("corrupt").what, Contains("Worker 2 (host-2, pid 4702)") &&
                                         Contains("key \"conv1\"") && Contains("in round 17"));
  CHECK_THAT(c.find("corrupt").cure, Contains("memory and network"));
}

TEST_CASE("of a job that votes it is told who overflows, where that costs rounds") {
  Case c({.compute = 0.49, .push = 0.22});
  c.job.mutable_spec()->set_loss_scaling(control::LOSS_SCALING_VOTED);
  c.job.mutable_statistics()->set_rounds(1000);
  c.job.mutable_statistics()->set_rounds_skipped(9);
  c.job.mutable_members(1)->mutable_values()->set_overflow_votes(9);
  CHECK(c.topics() == Topics{"nothing stands out"});
  c.job.mutable_statistics()->set_rounds_skipped(200);
  c.job.mutable_members(1)->mutable_values()->set_overflow_votes(198);
  CHECK(c.topics().front() == "overflows");
  CHECK_THAT(c.find("overflows").what, Contains("Of 1000 rounds 200") &&
                                           Contains("worker 1 (host-1, pid 4701) in 198 rounds"));
}

TEST_CASE("of a job with a quorum it is told who is late, withheld or lost") {
  Case c({});
  c.job.clear_timing();
  c.job.mutable_spec()->mutable_rounds()->set_quorum(3);
  c.job.mutable_spec()->mutable_rounds()->set_staleness(2);
  for (control::Member& member : *c.job.mutable_members()) {
    member.mutable_staleness()->add_pushes(1000);
  }
  CHECK(c.topics() == Topics{"nothing stands out"});
  c.job.mutable_spec()->mutable_rounds()->set_turns(true);
  CHECK(c.topics() == Topics{"turns"});
  CHECK_THAT(c.find("turns").what, Contains("The 4 workers take turns"));
  c.job.mutable_spec()->mutable_rounds()->set_turns(false);
  c.job.mutable_members(2)->mutable_staleness()->set_dropped(50);
  CHECK(c.topics() == Topics{"late pushes"});
  CHECK_THAT(c.find("late pushes").what, Contains("5.0 %") && Contains("worker 2"));
  c.job.mutable_members(1)->mutable_staleness()->set_withheld(400);
  CHECK_THAT(c.find("bounded staleness").what, Contains("40.0 %") && Contains("2 rounds ahead"));
  auto& done = *c.job.mutable_statistics()->mutable_quorum();
  done.set_rounds(100);
  CHECK(c.topics() == Topics{"late pushes", "bounded staleness"});
  c.job.mutable_spec()->mutable_rounds()->set_patience_ms(700);
  done.set_impatient(40);
  CHECK_THAT(c.find("rounds without a quorum").what, Contains("40.0 %") && Contains("700 ms"));
  c.job.mutable_spec()->mutable_rounds()->set_grace_ms(50);
  done.set_graces(60);
  CHECK_THAT(c.find("grace").what, Contains("60.0 %") && Contains("50 ms"));
  c.job.mutable_members(1)->set_lost(true);
  CHECK(c.topics() == Topics{"lost workers", "rounds without a quorum", "late pushes", "grace"});
  c.job.mutable_members(0)->set_lost(true);
  CHECK_THAT(c.find("lost workers").what,
             Contains("worker 0") && Contains("fewer than 3 of its 4"));
}

TEST_CASE("a job that does not run is told why instead") {
  Case c({});
  c.job.clear_timing();
  CHECK(c.topics() == Topics{"too early"});
  c.job.set_state(control::JOB_STATE_WAITING);
  c.job.mutable_members()->DeleteSubrange(1, 3);
  CHECK_THAT(c.find("workers are missing").what, Contains("1 of 4"));
  c.job.set_state(control::JOB_STATE_FAILED);
  c.job.set_reason("worker 1 (b, pid 2) was silent for 5.0 s");
  CHECK_THAT(c.find("failed").what, Contains("was silent"));
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
  const Case here = over_racks(0.005);
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
