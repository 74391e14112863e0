#include <spdlog/logger.h>
#include <spdlog/sinks/ostream_sink.h>

#include <catch2/catch.hpp>
#include <cstdint>
#include <future>
#include <memory>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "server/jobs/table.h"
#include "tests/support/server/job_table_fixture.h"

namespace phub::testing {
namespace {

using Catch::Matchers::Contains;

TEST_CASE("a start that times out names every missing worker and what it has not done") {
  JobTableFixture f;
  const JobSpec spec = spec_of(4);
  const Identity first = f.join(spec, 0).value();
  const Identity second = f.join(spec, 1).value();
  REQUIRE(f.join(spec, 2));
  REQUIRE(f.ready(first, spec).ok());
  REQUIRE(f.ready(second, spec).ok());
  f.connect(first);
  f.table.members.on_connected(second.job_id, 1, 0, "tcp");
  auto started = f.start(first);
  auto other = f.start(second, 2 * kLong);
  f.time_ms += kLong.count() - 1;
  f.table.life.end_late_starts();
  CHECK_FALSE(has_reply(started));
  f.time_ms += 1;
  f.table.life.end_late_starts();
  const Status late = started.get();
  CHECK_THAT(late.message(),
             Contains("worker 1 (host host1, pid 77) is connected to 1 of 2 cores") &&
                 Contains("worker 2 (host host2, pid 77) has joined but is not ready") &&
                 Contains("worker 3 has not joined") && !Contains("worker 0"));
  CHECK(late.code() == Code::kDeadlineExceeded);
  const Status told = other.get();
  CHECK(told.code() == Code::kAborted);
  CHECK(told.message() == late.message());
  CHECK(f.state() == JobState::kFailed);
  CHECK(f.table.starts.waiting() == 0);
}

TEST_CASE("a worker that stops waiting for the start is lost") {
  JobTableFixture f;
  const JobSpec spec = spec_of(2);
  const Identity member = f.join(spec).value();
  REQUIRE(f.ready(member, spec).ok());
  std::future<Status> started;
  const std::uint64_t wait = f.table.starts.start(member, kLong, reply_to(started));
  f.table.life.stop_waiting(member, wait);
  CHECK(started.get().code() == Code::kAborted);
  CHECK_THAT(f.reason(), Contains("worker 0 (host host-1, pid 77) was lost"));
}

TEST_CASE("a member that starts again takes the place of its earlier call") {
  JobTableFixture f;
  const JobSpec spec = spec_of(2);
  const Identity member = f.join(spec).value();
  REQUIRE(f.ready(member, spec).ok());
  std::future<Status> first;
  const std::uint64_t wait = f.table.starts.start(member, kLong, reply_to(first));
  auto second = f.start(member);
  CHECK(f.table.starts.waiting() == 1);
  const Status replaced = first.get();
  CHECK(replaced.code() == Code::kAborted);
  CHECK_THAT(replaced.message(), Contains("a later start of worker 0 (host host-1, pid 77)"));
  // The earlier call's end is no longer its member's.
  f.table.life.stop_waiting(member, wait);
  CHECK(f.state() == JobState::kWaiting);
  CHECK_FALSE(has_reply(second));
  const Identity other = f.join(spec).value();
  REQUIRE(f.ready(other, spec).ok());
  f.connect(member);
  f.connect(other);
  CHECK(second.get().ok());
}

TEST_CASE("a member that leaves while it waits for the start is told so") {
  JobTableFixture f;
  const JobSpec spec = spec_of(2);
  const Identity member = f.join(spec).value();
  auto started = f.start(member);
  REQUIRE(f.table.members.leave(member).ok());
  CHECK_THAT(started.get().message(), Contains("worker 0") && Contains("has left the job"));
}

TEST_CASE("members that are ready while the job is made wait without a thread") {
  JobTableFixture f;
  const JobSpec spec = spec_of(4);
  std::vector<Identity> members;
  for (int i = 0; i < 4; ++i) members.push_back(f.join(spec).value());
  const Topology topology{.cores_per_server = {kCores}};
  const std::uint64_t hash = JobTableFixture::hash_of(spec, {kCores});
  std::vector<std::future<Status>> meanwhile;
  f.data_plane.on_create = [&] {
    for (const std::size_t i : {1U, 2U, 3U}) {
      meanwhile.push_back(ready_later(f.table, members[i], topology, i == 2 ? hash + 1 : hash));
      CHECK_FALSE(has_reply(meanwhile.back()));
    }
    meanwhile.push_back(ready_later(f.table, members[3], topology, hash));
    f.time_ms += 6000;
    f.table.reap();  // who waits lives
  };
  CHECK(ready_now(f.table, members[0], topology, hash).ok());
  REQUIRE(meanwhile.size() == 4);
  CHECK(meanwhile[0].get().ok());
  CHECK(meanwhile[1].get().code() == Code::kFailedPrecondition);
  CHECK_THAT(meanwhile[2].get().message(), Contains("a later ready of worker 3"));
  CHECK(meanwhile[3].get().ok());
}

TEST_CASE("when a job cannot be made the next member that is ready tries it") {
  JobTableFixture f;
  const JobSpec spec = spec_of(2);
  const Identity first = f.join(spec).value();
  const Identity second = f.join(spec).value();
  const Topology topology{.cores_per_server = {kCores}};
  const std::uint64_t hash = JobTableFixture::hash_of(spec, {kCores});
  std::future<Status> other;
  f.data_plane.refuse_next({Code::kResourceExhausted, "needs 3 GiB of 2 GiB"});
  f.data_plane.on_create = [&] {
    if (!other.valid()) other = ready_later(f.table, second, topology, hash);
  };
  CHECK(ready_now(f.table, first, topology, hash).code() == Code::kResourceExhausted);
  CHECK(other.get().ok());
}

TEST_CASE("a lost connection fails the job, names the worker and frees name and memory") {
  JobTableFixture f;
  const auto members = f.running(2);
  f.table.members.on_lost(members[1].job_id, 1, "its connection closed");
  CHECK(f.state() == JobState::kFailed);
  CHECK(f.reason() == "worker 1 (host host-1, pid 77) was lost: its connection closed");
  const auto beat = f.table.members.heartbeat(members[0]);
  REQUIRE(beat);
  CHECK_FALSE(beat->is_live);
  CHECK_THAT(beat->reason, Contains("worker 1") && Contains("its connection closed"));
  // Nothing is removed from within the callback, and the name is free before the memory is.
  CHECK(f.data_plane.removed().empty());
  CHECK(f.join(spec_of(2)).value().job_id != members[0].job_id);
  f.table.reap();
  CHECK(f.data_plane.removed() == std::vector{members[0].job_id});
  CHECK(f.table.views.inspect("", members[0].job_id).value().counters.memory_bytes == 0);
  CHECK(f.table.views.inspect("", members[0].job_id).value().counters.chunks_completed == 20);
}

TEST_CASE("a new job gets the memory of the one that failed before it") {
  JobTableFixture f;
  const auto members = f.running(1);
  f.table.members.on_lost(members[0].job_id, 0, "its connection closed");
  bool was_removed_first = false;
  f.data_plane.on_create = [&] { was_removed_first = f.data_plane.removed().size() == 1; };
  f.running(1);
  CHECK(was_removed_first);
}

TEST_CASE("a job that fails while its memory is being made is released") {
  JobTableFixture f;
  const JobSpec spec = spec_of(2);
  const Identity member = f.join(spec).value();
  f.data_plane.on_create = [&] { REQUIRE(f.table.life.close("demo").ok()); };
  CHECK(f.ready(member, spec).code() == Code::kAborted);
  CHECK(f.data_plane.layout(member.job_id));
  f.table.reap();
  CHECK_FALSE(f.data_plane.layout(member.job_id));
}

TEST_CASE("a silent worker is lost after the heartbeat deadline and not before") {
  JobTableFixture f;
  const auto members = f.running(2);
  f.time_ms += 4000;
  REQUIRE(f.table.members.heartbeat(members[0]));
  f.time_ms += 1000;
  f.table.reap();
  CHECK(f.state() == JobState::kRunning);
  f.time_ms += 1;
  f.table.reap();
  CHECK(f.state() == JobState::kFailed);
  CHECK(f.reason() == "worker 1 (host host-1, pid 77) was lost: no heartbeat for 5000 ms");
}

TEST_CASE("a worker that joins and never becomes ready is lost too") {
  JobTableFixture f;
  REQUIRE(f.join(spec_of(2)));
  f.time_ms += 5001;
  f.table.reap();
  CHECK(f.state() == JobState::kFailed);
}

TEST_CASE("a worker that waits for the start needs no heartbeats") {
  JobTableFixture f;
  const JobSpec spec = spec_of(2);
  const Identity first = f.join(spec).value();
  REQUIRE(f.ready(first, spec).ok());
  auto started = f.start(first);
  f.time_ms += 6000;
  f.table.reap();
  CHECK(f.state() == JobState::kWaiting);
  REQUIRE(f.table.life.close("demo").ok());
  CHECK(started.get().code() == Code::kAborted);
}

TEST_CASE("a wrong secret, epoch, worker or job is refused everywhere") {
  JobTableFixture f;
  const Identity right = f.join(spec_of(2)).value();
  Identity secret = right;
  secret.secret[31] ^= 1;
  Identity epoch = right;
  ++epoch.epoch;
  Identity worker = right;
  worker.worker = 1;
  for (const Identity& wrong : {secret, epoch, worker}) {
    CHECK(f.table.members.heartbeat(wrong).error().code() == Code::kPermissionDenied);
    CHECK(f.table.members.leave(wrong).code() == Code::kPermissionDenied);
    CHECK(f.ready(wrong, spec_of(2)).code() == Code::kPermissionDenied);
    CHECK(f.start(wrong).get().code() == Code::kPermissionDenied);
  }
  Identity job = right;
  job.job_id = 99;
  CHECK(f.table.members.heartbeat(job).error().code() == Code::kNotFound);
}

TEST_CASE("the data plane gets secrets of live, ready members only") {
  JobTableFixture f;
  const JobSpec spec = spec_of(2);
  const Identity member = f.join(spec).value();
  CHECK_FALSE(f.table.members.secret_of(member.job_id, 1, 0));
  REQUIRE(f.ready(member, spec).ok());
  CHECK(f.table.members.secret_of(member.job_id, 1, 0) == IssuedSecret{member.secret});
  CHECK_FALSE(f.table.members.secret_of(member.job_id, 2, 0));
  CHECK_FALSE(f.table.members.secret_of(member.job_id, 1, 1));
  CHECK_FALSE(f.table.members.secret_of(member.job_id + 1, 1, 0));
  REQUIRE(f.table.life.close("demo").ok());
  CHECK_FALSE(f.table.members.secret_of(member.job_id, 1, 0));
}

TEST_CASE("a job ends when all its workers have left, and late losses do not matter") {
  JobTableFixture f;
  const auto members = f.running(2);
  REQUIRE(f.table.members.leave(members[0]).ok());
  CHECK_FALSE(f.table.members.secret_of(members[0].job_id, 1, 0));  // no new connection of its
  CHECK(f.table.members.secret_of(members[1].job_id, 1, 1));
  f.table.members.on_lost(members[0].job_id, 0, "its connection closed");
  CHECK(f.state() == JobState::kRunning);
  CHECK(f.table.members.heartbeat(members[1]).value().workers_left ==
        std::vector<std::uint32_t>{0});
  REQUIRE(f.table.members.leave(members[1]).ok());
  CHECK(f.state() == JobState::kEnded);
  CHECK(f.table.members.leave(members[1]).ok());
  f.table.reap();
  CHECK(f.data_plane.removed().size() == 1);
}

TEST_CASE("a waiting worker that leaves makes room unless it was connected") {
  JobTableFixture f;
  const JobSpec spec = spec_of(2);
  const Identity first = f.join(spec, 0).value();
  REQUIRE(f.join(spec, 1));
  REQUIRE(f.table.members.leave(first).ok());
  const Identity again = f.join(spec, 0).value();
  CHECK(again.job_id == first.job_id);
  REQUIRE(f.ready(again, spec).ok());
  f.connect(again);
  REQUIRE(f.table.members.leave(again).ok());
  CHECK(f.state() == JobState::kFailed);
  CHECK_THAT(f.reason(), Contains("worker 0") && Contains("left before the job started"));
}

TEST_CASE("a job whose only worker left before the start has ended") {
  JobTableFixture f;
  const Identity member = f.join(spec_of(2)).value();
  REQUIRE(f.table.members.leave(member).ok());
  CHECK(f.state() == JobState::kEnded);
}

TEST_CASE("a job made by an administrator lives without workers and takes the first one's keys") {
  JobTableFixture f;
  JobSpec spec = spec_of(2);
  spec.keys.clear();
  const std::uint64_t id = f.table.life.create(spec).value();
  CHECK(f.table.life.create(spec).error().code() == Code::kAlreadyExists);
  CHECK(f.table.views.plan("demo").error().code() == Code::kFailedPrecondition);
  const Identity member = f.join(spec_of(2)).value();
  CHECK(member.job_id == id);
  CHECK(f.table.views.inspect("demo", 0).value().spec->keys.size() == 2);
  REQUIRE(f.table.members.leave(member).ok());
  CHECK(f.state() == JobState::kWaiting);
  REQUIRE(f.table.life.close("demo").ok());
  CHECK(f.state() == JobState::kEnded);
  CHECK(f.table.life.close("demo").code() == Code::kNotFound);
}

TEST_CASE("the plan can be seen before a worker is ready and then is the job's own") {
  JobTableFixture f;
  const JobSpec spec = spec_of(1);
  const Identity member = f.join(spec).value();
  CHECK(f.table.views.plan("demo").value().is_preview);
  REQUIRE(f.ready(member, spec).ok());
  const PlanView view = f.table.views.plan("demo").value();
  CHECK_FALSE(view.is_preview);
  CHECK(view.plan->hash == JobTableFixture::hash_of(spec, {kCores}));
  CHECK(f.table.views.plan("other").error().code() == Code::kNotFound);
}

TEST_CASE("only the last finished jobs stay listed") {
  JobTableFixture f;
  for (int i = 0; i < 5; ++i) {
    f.running(1);
    REQUIRE(f.table.life.close("demo").ok());
    f.table.reap();
  }
  const auto jobs = f.table.views.list();
  REQUIRE(jobs.size() == 3);
  CHECK(jobs.front().id == 3);
  CHECK(jobs.back().id == 5);
}

TEST_CASE("the number of live jobs is limited") {
  JobTableFixture f;
  for (int i = 0; i < 5; ++i) REQUIRE(f.table.life.create(spec_of(1, "job" + std::to_string(i))));
  CHECK(f.table.life.create(spec_of(1, "more")).error().code() == Code::kResourceExhausted);
}

TEST_CASE("a draining table refuses new jobs and ends old ones at the deadline") {
  JobTableFixture f;
  const auto members = f.running(1);
  REQUIRE(f.table.life.create(spec_of(1, "empty")));
  CHECK(f.table.drain(milliseconds(1000)) == 1);
  CHECK(f.state("empty") == JobState::kEnded);
  CHECK(f.join(spec_of(1, "new")).error().code() == Code::kUnavailable);
  f.table.reap();
  CHECK(f.state() == JobState::kRunning);
  f.time_ms += 1000;
  f.table.reap();
  CHECK(f.state() == JobState::kFailed);
  CHECK_THAT(f.reason(), Contains("drained"));
  CHECK_FALSE(f.table.wait_until_told(milliseconds(1)));
  REQUIRE(f.table.members.heartbeat(members[0]));
  CHECK(f.table.wait_until_told(milliseconds(1)));
  CHECK(f.table.wait_until_idle(milliseconds(1)));
}

TEST_CASE("many threads join, start, lose and list jobs without losing count of them") {
  JobTableFixture f;
  std::vector<std::future<int>> threads;
  for (int t = 0; t < 4; ++t) {
    threads.push_back(std::async(std::launch::async, [&f, t] {
      int finished = 0;
      for (int i = 0; i < 50; ++i) {
        const JobSpec spec = spec_of(1, "job" + std::to_string(t));
        const auto member = f.join(spec);
        if (!member || !f.ready(*member, spec).ok()) continue;
        f.connect(*member);
        if (!f.start(*member).get().ok()) continue;
        if (i % 2 == 0) {
          f.table.members.on_lost(member->job_id, 0, "its connection closed");
        } else if (!f.table.members.leave(*member).ok()) {
          continue;
        }
        f.table.reap();
        f.table.views.list();
        ++finished;
      }
      return finished;
    }));
  }
  for (auto& thread : threads) CHECK(thread.get() == 50);
  f.table.reap();
  CHECK(f.data_plane.removed().size() == 200);
  CHECK(f.table.views.live_jobs() == 0);
}

TEST_CASE("the transport of a member is logged once with the reason that it gave first") {
  JobTableFixture f;
  const Identity member = f.running(1)[0];
  std::ostringstream log;
  const auto usual = spdlog::default_logger();
  spdlog::set_default_logger(std::make_shared<spdlog::logger>(
      "test", std::make_shared<spdlog::sinks::ostream_sink_mt>(log)));
  CHECK(f.table.members.note_transport(member, "on the same host").ok());
  CHECK(f.table.members.note_transport(member, "another").ok());
  spdlog::set_default_logger(usual);
  CHECK_THAT(log.str(), Contains("worker=0 transport=shm reason=\"on the same host\"") &&
                            !Contains("another"));
  CHECK(f.table.views.inspect("demo", 0)->members[0].transport_reason == "on the same host");
  Identity wrong = member;
  wrong.secret = {};
  CHECK(f.table.members.note_transport(wrong, "x").code() == Code::kPermissionDenied);
}

}  // namespace
}  // namespace phub::testing
