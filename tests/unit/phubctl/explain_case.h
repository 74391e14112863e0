// A job and its server with made-up figures, and what is found of them.
#pragma once

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "server/phubctl/explain/explain.h"

namespace phub::phubctl {

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

}  // namespace phub::phubctl
