// Jobs that come, exchange, and go or die on one core, by a seed: nothing may be lost or counted
// twice, nobody kept waiting, no memory held for nothing. See README.md.
//
// Usage: core_simulation [--seeds COUNT] [--first SEED]    or    core_simulation --seed SEED
#include <algorithm>
#include <map>

#include "tests/simulation/random_time.h"
#include "tests/simulation/seeds.h"
#include "tests/simulation/simulated_job.h"

namespace phub::simulation {
namespace {

constexpr std::uint32_t kJobsAtOnce = 4;
constexpr std::uint32_t kWorkersMost = 4;
constexpr std::uint32_t kConnections = kJobsAtOnce * kWorkersMost;  // ids are used again
constexpr std::uint32_t kTenants = 3;
constexpr int kStepsMost = 200'000;  // in a hurry: a run has some thousands

class Simulation {
 public:
  explicit Simulation(std::uint64_t seed) : random_(seed), time_(seed ^ 0x5EEDULL) {
    server::CoreOptions options;
    options.max_connections = kConnections;
    options.own_thread = false;
    options.time = &time_;
    core_ = std::move(*server::Core::create(options));
    jobs_to_come_ = random_.between(2, 9);
    steps_ = random_.between(300, 1500);
  }

  // Empty, or what went wrong.
  std::string run() {
    std::string wrong;
    for (std::uint32_t i = 0; i < steps_ && wrong.empty(); ++i) wrong = step();
    hurry();
    for (int i = 0; !is_over() && wrong.empty(); ++i) {
      wrong = step();
      if (i == kStepsMost) wrong = "jobs do not end";
    }
    return wrong;
  }

 private:
  bool is_over() const { return jobs_.empty() && jobs_to_come_ == 0; }
  void hurry() {
    is_hurrying_ = true;
    for (auto& [id, job] : jobs_) job->hurry();
  }

  std::string step() {
    if (jobs_.size() < kJobsAtOnce && jobs_to_come_ > 0 && random_.one_in(20)) add_job();
    if (jobs_.empty()) return run_core();
    auto chosen = std::next(jobs_.begin(), random_.below(static_cast<std::uint32_t>(jobs_.size())));
    SimulatedJob& job = *chosen->second;
    if (!is_hurrying_ && random_.one_in(400)) job.kill_worker();
    // The reaper comes when it likes.
    if ((job.is_done() || job.is_loss_reported()) && random_.one_in(10)) {
      end(chosen);
      return {};
    }
    std::string wrong = job.step();
    for (std::uint32_t rounds = random_.below(3); wrong.empty() && rounds > 0; --rounds) {
      wrong = run_core();
    }
    return wrong;
  }

  // A job that lost a worker may come back, when the old connections are gone or while they are
  // still there.
  void end(std::map<std::uint64_t, std::unique_ptr<SimulatedJob>>::iterator job) {
    const bool comes_back = job->second->is_loss_reported() && random_.one_in(2);
    JobOptions again = job->second->options();
    ++again.shape.epoch;
    const bool is_early = random_.one_in(2);
    if (comes_back && is_early) start(again);
    jobs_.erase(job);
    if (comes_back && !is_early) start(again);
  }

  std::string run_core() {
    core_->run_once();
    while (auto event = core_->next_event()) {
      const auto found = jobs_.find(event->job_id);
      if (found == jobs_.end()) continue;  // it was on its way
      if (auto wrong = found->second->on_lost(event->worker); !wrong.empty()) {
        return wrong + " (" + std::string(event->reason) + ")";
      }
    }
    for (auto& [id, job] : jobs_) {
      if (auto wrong = job->check(); !wrong.empty()) return wrong;
    }
    return {};
  }

  void add_job() {
    --jobs_to_come_;
    constexpr std::uint32_t kSizes[] = {64, 64, 256, 4096, 32768};
    constexpr RuleKind kRules[] = {RuleKind::kSum, RuleKind::kMomentum, RuleKind::kLars,
                                   RuleKind::kAdamW};
    JobOptions options;
    const RuleKind rule = kRules[random_.below(4)];
    const bool votes = has_parameters(rule) && random_.one_in(2);
    options.shape = {.workers = random_.between(1, kWorkersMost),
                     .chunks = random_.between(1, 12),
                     .chunk_bytes = kSizes[random_.below(needs_whole_keys(rule) ? 3 : 5)],
                     .tenant = random_.below(kTenants),
                     .weight = random_.one_in(4) ? random_.between(2, 5) : 1,
                     .rule = rule,
                     .loss_scaling = votes ? LossScaling::kVoted : LossScaling::kNone,
                     .chunks_of_key = random_.between(1, 5)};
    options.rounds = random_.between(1, 6);
    start(options);
  }

  void start(JobOptions options) {
    options.shape.id = ++ids_;
    jobs_[ids_] = std::make_unique<SimulatedJob>(options, *core_, random_);
    if (is_hurrying_) jobs_[ids_]->hurry();
  }

  Random random_;
  RandomTime time_;
  std::unique_ptr<server::Core> core_;
  std::map<std::uint64_t, std::unique_ptr<SimulatedJob>> jobs_;
  std::uint64_t ids_ = 0;
  std::uint32_t jobs_to_come_ = 0;
  std::uint32_t steps_ = 0;
  bool is_hurrying_ = false;
};

}  // namespace
}  // namespace phub::simulation

int main(int argc, char** argv) {
  return phub::simulation::run_seeds(
      argc, argv, [](std::uint64_t seed) { return phub::simulation::Simulation(seed).run(); });
}
