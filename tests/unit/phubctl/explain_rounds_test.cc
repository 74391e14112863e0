// Rounds that count for less than they cost, or for nothing: skipped, not finite, late, none.
#include <catch2/catch.hpp>

#include "tests/unit/phubctl/explain_case.h"

namespace phub::phubctl {
namespace {

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
  CHECK_THAT(c.find("rounds without a quorum").cure, Contains("a third of its timeout_ms"));
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
  c.job.set_cure("look in the log of worker 1");
  CHECK_THAT(c.find("failed").what, Contains("was silent"));
  CHECK(c.find("failed").cure == "look in the log of worker 1");
}

TEST_CASE("of a failed job the newest snapshot here is named, or that there is none") {
  Case c({});
  c.job.clear_timing();
  c.job.set_state(control::JOB_STATE_FAILED);
  c.job.set_cure("restore it");
  Looks looks{.before = c.server, .now = c.server};
  const auto cure = [&] { return explain(c.job, looks).at(0).cure; };
  CHECK(cure() == "restore it");  // the server does not tell
  looks.snapshots.emplace();
  CHECK_THAT(cure(), Contains("restore it; this server has no snapshot of it"));
  const auto add = [&](const char* tenant, const char* job, const char* created,
                       std::uint64_t round) {
    control::SnapshotInfo& snapshot = looks.snapshots->emplace_back();
    snapshot.set_tenant(tenant);
    snapshot.set_job(job);
    snapshot.set_created(created);
    snapshot.set_round(round);
    snapshot.set_file("file" + std::to_string(round));
  };
  add("vision", "resnet", "2026-11-27T05:00:01Z", 90);  // it began anew since
  add("vision", "resnet", "2026-11-27T05:00:03Z", 7);
  add("vision", "other", "2026-11-27T05:00:04Z", 8);
  add("speech", "resnet", "2026-11-27T05:00:05Z", 9);
  CHECK_THAT(cure(), Contains("restore it; its newest snapshot here is file7, of round 7"));
}

// phub-worker refuses a checkpoint whose momentum the servers had.
TEST_CASE("what a job that is over is told of going on is not refused") {
  Case c({});
  c.job.set_state(control::JOB_STATE_FAILED);
  c.job.mutable_spec()->set_name("mnist");
  c.job.mutable_spec()->set_rule(control::RULE_MOMENTUM);
  CHECK_THAT(c.find("failed").cure, Contains("phubctl restore FILE --as mnist") &&
                                        Contains("--resume CHECKPOINT --restart-momentum"));
  c.job.set_state(control::JOB_STATE_ENDED);
  CHECK_THAT(c.find("ended").cure, Contains("--resume CHECKPOINT --restart-momentum"));
  c.job.mutable_spec()->set_rule(control::RULE_SGD);
  CHECK_THAT(c.find("ended").cure, !Contains("phubctl restore"));
}

}  // namespace
}  // namespace phub::phubctl
