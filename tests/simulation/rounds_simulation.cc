// Jobs with a quorum on one core, by a seed: no push counted twice, none lost but by policy,
// staleness within its bound, quorums honoured, nobody kept waiting. See README.md.
//
// Usage: rounds_simulation [--seeds COUNT] [--first SEED]    or    rounds_simulation --seed SEED
#include "tests/simulation/one_core.h"
#include "tests/simulation/quorum_job.h"
#include "tests/simulation/seeds.h"

namespace phub::simulation {
namespace {

class Simulation final : public OneCore<QuorumJob> {
 public:
  explicit Simulation(std::uint64_t seed)
      : OneCore({.jobs_at_once = 3,
                 .workers_most = QuorumJob::kWorkersMost,
                 .streams_most = seed % 3 == 0 ? 3U : 1U,
                 .steps_to_a_job = 10,
                 .steps_to_a_kill = 500},
                seed) {
    jobs_to_come_ = random_.between(1, 3);
    steps_ = random_.between(200, 1200);
  }

 private:
  std::string after_step(Place job) override {
    if (!job->second->is_over()) return {};
    std::string wrong = job->second->check_end();
    jobs_.erase(job);
    return wrong;
  }

  RoundPolicy any_policy(std::uint32_t workers) {
    RoundPolicy policy{.quorum = random_.between(1, workers - 1)};
    policy.patience_ms = random_.between(1, 8);
    if (random_.one_in(2)) policy.staleness = random_.below(4);
    if (random_.one_in(2)) {
      policy.late = LatePushes::kAdd;
      policy.turns = random_.one_in(3);
      if (policy.turns) policy.quorum = 1;
      if (policy.turns) policy.staleness = kAnyStaleness;
    } else if (random_.one_in(2)) {
      policy.grace_ms = random_.between(1, 3);
    }
    return policy;
  }

  void add_job() override {
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
                     .weight_decay = 0.0F,
                     .tcp_streams = any_streams()};
    options.pushes = random_.between(1, 12);
    begin(ids_, std::make_unique<QuorumJob>(options, *core_, random_));
  }
};

}  // namespace
}  // namespace phub::simulation

int main(int argc, char** argv) {
  return phub::simulation::run_seeds(
      argc, argv, [](std::uint64_t seed) { return phub::simulation::Simulation(seed).run(); });
}
