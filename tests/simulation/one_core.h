// The main loop of a simulation of one core: jobs come, one after another does something, the core
// has its rounds, and jobs go. A seed decides all of it.
#pragma once

#include <cstdint>
#include <iterator>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "server/core/core.h"
#include "tests/simulation/random.h"
#include "tests/simulation/random_time.h"

namespace phub::simulation {

struct OneCoreOptions {
  std::uint32_t jobs_at_once = 1;
  std::uint32_t workers_most = 1;     // of a job: connections' ids are used again
  std::uint32_t streams_most = 1;     // of a worker over tcp
  std::uint32_t steps_to_a_job = 10;  // about, from one to the next
  std::uint32_t steps_to_a_kill = 500;
};

// Job: step, kill_worker, hurry, check and on_lost, as quorum_job.h has them.
template <typename Job>
class OneCore {
 public:
  OneCore(const OneCoreOptions& options, std::uint64_t seed)
      : random_(seed), time_(seed ^ 0x5EEDULL), options_(options) {
    server::CoreOptions core;
    core.max_connections = options.jobs_at_once * options.workers_most * options.streams_most;
    core.own_thread = false;
    core.time = &time_;
    core_ = std::move(*server::Core::create(core));
  }
  virtual ~OneCore() = default;
  OneCore(const OneCore&) = delete;
  OneCore& operator=(const OneCore&) = delete;

  // Empty, or what went wrong.
  std::string run() {
    std::string wrong;
    for (std::uint32_t i = 0; wrong.empty() && (jobs_to_come_ > 0 || !jobs_.empty()); ++i) {
      if (i == steps_) hurry();
      wrong = i == steps_ + kStepsMost ? "jobs do not end" : step();
    }
    return wrong;
  }

 protected:
  // Of each worker of a new job that comes by tcp.
  std::uint32_t any_streams() {
    return options_.streams_most == 1 ? 1 : random_.between(1, options_.streams_most);
  }

  using Place = typename std::map<std::uint64_t, std::unique_ptr<Job>>::iterator;

  virtual void add_job() = 0;
  // Before the job does something. True: it has ended, and is erased.
  virtual bool has_ended(Place) { return false; }
  // After that and the core's rounds.
  virtual std::string after_step(Place) { return {}; }

  void begin(std::uint64_t id, std::unique_ptr<Job> job) {
    if (is_hurrying_) job->hurry();
    jobs_[id] = std::move(job);
  }

  Random random_;
  RandomTime time_;
  std::unique_ptr<server::Core> core_;
  std::map<std::uint64_t, std::unique_ptr<Job>> jobs_;
  std::uint64_t ids_ = 0;
  std::uint32_t jobs_to_come_ = 0;
  std::uint32_t steps_ = 0;  // until all hurry

 private:
  static constexpr std::uint32_t kStepsMost = 200'000;  // in a hurry: a run has some thousands

  void hurry() {
    is_hurrying_ = true;
    for (auto& [id, job] : jobs_) job->hurry();
  }

  std::string step() {
    if (jobs_.size() < options_.jobs_at_once && jobs_to_come_ > 0 &&
        random_.one_in(options_.steps_to_a_job)) {
      --jobs_to_come_;
      add_job();
    }
    if (jobs_.empty()) return run_core();
    const Place chosen =
        std::next(jobs_.begin(), random_.below(static_cast<std::uint32_t>(jobs_.size())));
    Job& job = *chosen->second;
    if (!is_hurrying_ && random_.one_in(options_.steps_to_a_kill)) job.kill_worker();
    if (has_ended(chosen)) return {};
    std::string wrong = job.step();
    for (std::uint32_t rounds = random_.below(3); wrong.empty() && rounds > 0; --rounds) {
      wrong = run_core();
    }
    return wrong.empty() ? after_step(chosen) : wrong;
  }

  std::string run_core() {
    core_->run_once();
    while (auto event = core_->next_event()) {
      const auto found = jobs_.find(event->job_id);
      if (found == jobs_.end()) continue;  // it was on its way
      if (auto wrong = found->second->on_lost(*event); !wrong.empty()) {
        return wrong + " (" + std::string(event->reason) + ")";
      }
    }
    for (auto& [id, job] : jobs_) {
      if (auto wrong = job->check(); !wrong.empty()) return wrong;
    }
    return {};
  }

  const OneCoreOptions options_;
  bool is_hurrying_ = false;
};

}  // namespace phub::simulation
