// Jobs that come, exchange, and go or die on one core, by a seed: nothing may be lost or counted
// twice, nobody kept waiting, no memory held for nothing. See README.md.
//
// Usage: core_simulation [--seeds COUNT] [--first SEED]    or    core_simulation --seed SEED
#include "tests/simulation/one_core.h"
#include "tests/simulation/seeds.h"
#include "tests/simulation/simulated_job.h"

namespace phub::simulation {
namespace {

constexpr std::uint32_t kWorkersMost = 4;
constexpr std::uint32_t kTenants = 3;

class Simulation final : public OneCore<SimulatedJob> {
 public:
  explicit Simulation(std::uint64_t seed)
      : OneCore({.jobs_at_once = 4,
                 .workers_most = kWorkersMost,
                 .streams_most = seed % 3 == 0 ? 3U : 1U,
                 .steps_to_a_job = 20,
                 .steps_to_a_kill = 400},
                seed) {
    jobs_to_come_ = random_.between(2, 9);
    steps_ = random_.between(300, 1500);
  }

 private:
  // The reaper comes when it likes.
  bool has_ended(Place job) override {
    const bool is_over = job->second->is_done() || job->second->is_loss_reported();
    if (!is_over || !random_.one_in(10)) return false;
    end(job);
    return true;
  }

  // A job that lost a worker may come back, when the old connections are gone or while they are
  // still there.
  void end(Place job) {
    const bool comes_back = job->second->is_loss_reported() && random_.one_in(2);
    JobOptions again = job->second->options();
    ++again.shape.epoch;
    const bool is_early = random_.one_in(2);
    if (comes_back && is_early) start(again);
    jobs_.erase(job);
    if (comes_back && !is_early) start(again);
  }

  void add_job() override {
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
                     .chunks_of_key = random_.between(1, 5),
                     .tcp_streams = any_streams()};
    options.rounds = random_.between(1, 6);
    start(options);
  }

  void start(JobOptions options) {
    options.shape.id = ++ids_;
    begin(ids_, std::make_unique<SimulatedJob>(options, *core_, random_));
  }
};

}  // namespace
}  // namespace phub::simulation

int main(int argc, char** argv) {
  return phub::simulation::run_seeds(
      argc, argv, [](std::uint64_t seed) { return phub::simulation::Simulation(seed).run(); });
}
