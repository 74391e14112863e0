// Jobs with a quorum on one core, by a seed: no push counted twice, none lost but by policy,
// staleness within its bound, quorums honoured, nobody kept waiting. See README.md.
//
// Usage: rounds_simulation [--seeds COUNT] [--first SEED]    or    rounds_simulation --seed SEED
#include <map>

#include "tests/simulation/quorum_job.h"
#include "tests/simulation/random_time.h"
#include "tests/simulation/seeds.h"

namespace phub::simulation {
namespace {

constexpr std::uint32_t kJobsAtOnce = 3;
constexpr int kStepsMost = 200'000;

class Simulation {
 public:
  explicit Simulation(std::uint64_t seed) : random_(seed), time_(seed ^ 0x5EEDULL) {
    server::CoreOptions options;
    options.max_connections = kJobsAtOnce * QuorumJob::kWorkersMost;
    options.own_thread = false;
    options.time = &time_;
    core_ = std::move(*server::Core::create(options));
    jobs_to_come_ = random_.between(1, 3);
    steps_ = random_.between(200, 1200);
  }

  // Empty, or what went wrong.
  std::string run() {
    std::string wrong;
    for (int i = 0; wrong.empty() && (jobs_to_come_ > 0 || !jobs_.empty()); ++i) {
      if (i == static_cast<int>(steps_)) hurry();
      wrong = i == kStepsMost ? "jobs do not end" : step();
    }
    return wrong;
  }

 private:
  void hurry() {
    is_hurrying_ = true;
    for (auto& [id, job] : jobs_) job->hurry();
  }

  std::string step() {
    if (jobs_.size() < kJobsAtOnce && jobs_to_come_ > 0 && random_.one_in(10)) add_job();
    if (jobs_.empty()) return run_core();
    const auto chosen =
        std::next(jobs_.begin(), random_.below(static_cast<std::uint32_t>(jobs_.size())));
    QuorumJob& job = *chosen->second;
    if (!is_hurrying_ && random_.one_in(500)) job.kill_worker();
    std::string wrong = job.step();
    for (std::uint32_t rounds = random_.below(3); wrong.empty() && rounds > 0; --rounds) {
      wrong = run_core();
    }
    if (!wrong.empty() || !job.is_over()) return wrong;
    wrong = job.check_end();
    jobs_.erase(chosen);
    return wrong;
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

  RoundPolicy any_policy(std::uint32_t workers) {
    RoundPolicy policy{.quorum = random_.between(1, workers - 1)};
    policy.patience_ms = random_.between(2, 8);
    if (random_.one_in(2)) policy.staleness = random_.below(4);
    if (random_.one_in(2)) {
      policy.late = LatePushes::kAdd;
    } else if (random_.one_in(2)) {
      policy.grace_ms = random_.between(1, 3);
    }
    return policy;
  }

  void add_job() {
    --jobs_to_come_;
    constexpr std::uint32_t kSizes[] = {64, 64, 256, 4096, 32768};
    QuorumJobOptions options;
    const std::uint32_t workers = random_.between(2, QuorumJob::kWorkersMost);
    options.shape = {.workers = workers,
                     .chunks = random_.between(1, 6),
                     .chunk_bytes = kSizes[random_.below(5)],
                     .tenant = random_.below(2),
                     .id = ++ids_,
                     .rule = RuleKind::kSgd,
                     .rounds = any_policy(workers),
                     .hyper = {.learning_rate = 1.0F, .gradient_scale = 1.0F},
                     .weight_decay = 0.0F};
    options.pushes = random_.between(1, 12);
    jobs_[ids_] = std::make_unique<QuorumJob>(options, *core_, random_);
    if (is_hurrying_) jobs_[ids_]->hurry();
  }

  Random random_;
  RandomTime time_;
  std::unique_ptr<server::Core> core_;
  std::map<std::uint64_t, std::unique_ptr<QuorumJob>> jobs_;
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
