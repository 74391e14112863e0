// Jobs that span racks, and others, on the cores of two to nine racks, by a seed: sums and
// parameters have the documented bits whatever is late, who is cut off or lies is named, and nobody
// else notices. See README.md.
//
// Usage: racks_simulation [--seeds COUNT] [--first SEED]    or    racks_simulation --seed SEED
#include <algorithm>
#include <array>
#include <bit>
#include <map>
#include <numeric>

#include "tests/simulation/racks_job.h"
#include "tests/simulation/random_time.h"
#include "tests/simulation/seeds.h"

namespace phub::simulation {
namespace {

using server::Core;
using server::Drop;

constexpr std::uint32_t kConnections = 96;     // of a core: three jobs of nine racks
constexpr std::uint64_t kStepsStill = 5000;    // without anything that moves, in a hurry
constexpr std::uint64_t kStepsMost = 200'000;  // in a hurry

class RacksSimulation {
 public:
  explicit RacksSimulation(std::uint64_t seed) : random_(seed), time_(seed ^ 0x5EEDULL) {
    constexpr std::uint32_t kRacks[] = {2, 2, 2, 3, 3, 3, 4, 4, 5, 5, 6, 7, 8, 9};
    const std::uint32_t racks = kRacks[random_.below(std::size(kRacks))];
    for (std::uint32_t rack = 0; rack < racks; ++rack) {
      server::CoreOptions options;
      options.index = rack;
      options.max_connections = kConnections;
      options.own_thread = false;
      options.time = &time_;
      cores_.push_back({std::move(*Core::create(options)), {}});
    }
    at_once_ = racks > 5 ? 2 : 3;
    to_come_ = random_.between(1, racks > 5 ? 2 : 4);
    steps_ = random_.between(50, 400);
    is_peaceful_ = random_.one_in(3);
  }

  // Empty, or what went wrong.
  std::string run() {
    std::string wrong;
    for (std::uint32_t i = 0; i < steps_ && wrong.empty(); ++i) wrong = step();
    is_hurrying_ = true;
    std::uint64_t moved = 0;
    std::uint64_t still = 0;
    for (std::uint64_t i = 0; !is_over() && wrong.empty(); ++i) {
      wrong = hurry();
      const std::uint64_t now = progress();
      still = now == moved ? still + 1 : 0;
      moved = now;
      if (wrong.empty() && (still == kStepsStill || i == kStepsMost))
        wrong = "it does not end" + state();
    }
    return wrong;
  }

 private:
  struct OneCore {
    std::unique_ptr<Core> core;
    std::array<std::uint64_t, static_cast<std::size_t>(Drop::kCount)> drops = {};
  };

  bool is_over() const { return jobs_.empty() && to_come_ == 0; }
  std::uint64_t progress() const {
    std::uint64_t sum = gone_;
    for (const auto& [id, job] : jobs_) sum += job->progress();
    return sum;
  }
  std::string state() const {
    std::string text;
    for (const auto& [id, job] : jobs_) text += "; " + job->state();
    return text;
  }

  std::string step() {
    if (jobs_.size() < at_once_ && to_come_ > 0 && random_.one_in(10)) add_job();
    std::string wrong;
    if (!jobs_.empty()) {
      const auto count = static_cast<std::uint32_t>(jobs_.size());
      RacksJob& job = *std::next(jobs_.begin(), random_.below(count))->second;
      if (!is_peaceful_ && random_.one_in(150)) job.harm();
      wrong = job.step();
    }
    for (std::uint32_t some = random_.below(2 + cores()); wrong.empty() && some > 0; --some) {
      wrong = run_core(cores_[random_.below(cores())]);
    }
    reap();
    return wrong;
  }

  std::string hurry() {
    if (jobs_.size() < at_once_ && to_come_ > 0) add_job();
    for (auto& [id, job] : jobs_) {
      if (auto wrong = job->hurry(); !wrong.empty()) return wrong;
    }
    for (OneCore& core : cores_) {
      if (auto wrong = run_core(core); !wrong.empty()) return wrong;
    }
    reap();
    return {};
  }

  void reap() {
    for (auto job = jobs_.begin(); job != jobs_.end();) {
      job->second->reap(is_hurrying_);
      if (!job->second->is_over()) {
        ++job;
        continue;
      }
      gone_ += job->second->progress() + 1;
      stale_gone_ += job->second->stale_sent();
      job = jobs_.erase(job);
    }
  }

  std::string run_core(OneCore& one) {
    one.core->run_once();
    std::vector<Causes> refused;
    while (auto event = one.core->next_event()) {
      const auto found = jobs_.find(event->job_id);
      if (found == jobs_.end()) continue;  // it was on its way
      Causes causes;
      auto wrong = found->second->on_lost(*one.core, *event, causes);
      if (!wrong.empty()) return wrong + " (" + std::string(event->reason) + ")";
      if (!causes.empty() && event->reason != "its connection closed") refused.push_back(causes);
    }
    return check_drops(one, std::move(refused));
  }

  // Each connection that was refused for something is counted with its cause, and nothing else is.
  std::string check_drops(OneCore& one, std::vector<Causes> refused) {
    std::sort(refused.begin(), refused.end(), [](const Causes& a, const Causes& b) {
      return std::popcount(a.bits()) < std::popcount(b.bits());
    });
    const std::string who = "core " + std::to_string(&one - cores_.data()) + ": ";
    for (std::size_t i = 0; i < one.drops.size(); ++i) {
      const auto cause = static_cast<Drop>(i);
      const std::uint64_t count = one.core->drops().value(cause);
      for (; one.drops[i] < count; ++one.drops[i]) {
        if (cause == Drop::kLateWrite || cause == Drop::kStaleEpoch) continue;
        const auto why = std::find_if(refused.begin(), refused.end(),
                                      [&](const Causes& causes) { return causes.has(cause); });
        if (why == refused.end()) return who + "drops for " + std::string(server::kDropNames[i]);
        refused.erase(why);
      }
    }
    if (!refused.empty()) return who + "a connection is refused, and its cause not counted";
    std::uint64_t stale = 0;
    for (const OneCore& core : cores_) stale += core.core->drops().value(Drop::kStaleEpoch);
    std::uint64_t sent = stale_gone_;
    for (const auto& [id, job] : jobs_) sent += job->stale_sent();
    return stale > sent ? who + "messages are taken for an older epoch's" : "";
  }

  void add_job() {
    --to_come_;
    constexpr RuleKind kRules[] = {RuleKind::kSum, RuleKind::kMomentum, RuleKind::kLars,
                                   RuleKind::kAdamW, RuleKind::kElastic};
    constexpr DataType kTypes[] = {DataType::kFloat32, DataType::kFloat16, DataType::kBfloat16};
    constexpr RackShape kShapes[] = {RackShape::kSpread, RackShape::kChain, RackShape::kMulticolour,
                                     RackShape::kHybrid, RackShape::kNested};
    constexpr LossScaling kScaling[] = {LossScaling::kNone, LossScaling::kStatic,
                                        LossScaling::kVoted};
    RacksJobOptions options;
    options.id = ++ids_;
    options.tenant = random_.below(3);
    options.weight = random_.one_in(4) ? random_.between(2, 5) : 1;
    std::vector<std::uint32_t> order(cores());
    std::iota(order.begin(), order.end(), 0U);
    std::shuffle(order.begin(), order.end(), random_.engine());
    order.resize(random_.one_in(4) ? 1 : random_.between(2, cores()));
    for (const std::uint32_t at : order) {
      options.cores.push_back(cores_[at].core.get());
      options.workers.push_back(random_.one_in(2) ? 1 : random_.between(1, 4));
    }
    options.shape = kShapes[random_.below(5)];
    options.rule = kRules[random_.below(5)];
    options.wire_type = kTypes[random_.below(3)];
    if (random_.one_in(3)) options.rack_wire_type = kTypes[random_.below(3)];
    const bool scales = has_parameters(options.rule) && !is_elastic(options.rule);
    if (scales) options.loss_scaling = kScaling[random_.below(3)];
    if (options.loss_scaling == LossScaling::kVoted) {
      options.shape = RackShape::kSpread;
      options.rack_wire_type = DataType::kFloat32;
    }
    const bool is_wide = options.rack_wire_type == DataType::kFloat32;
    options.compresses =
        options.cores.size() > 1 && is_wide && !is_elastic(options.rule) && random_.one_in(3);
    options.chunk_bytes = random_.one_in(2) ? 64 : 256;
    options.hybrid_bytes = random_.one_in(2) ? 0 : random_.between(64, 512);
    for (std::uint32_t keys = random_.between(1, 8); keys > 0; --keys) {
      options.key_elements.push_back(random_.between(1, random_.one_in(3) ? 150 : 30));
    }
    options.rounds = random_.between(1, 6);
    jobs_[ids_] = std::make_unique<RacksJob>(std::move(options), random_);
  }

  std::uint32_t cores() const { return static_cast<std::uint32_t>(cores_.size()); }

  Random random_;
  RandomTime time_;
  std::vector<OneCore> cores_;  // by rack
  std::map<std::uint64_t, std::unique_ptr<RacksJob>> jobs_;
  std::uint64_t ids_ = 0;
  std::uint64_t gone_ = 0;        // progress of jobs that are over
  std::uint64_t stale_gone_ = 0;  // messages of theirs
  std::uint32_t at_once_ = 0;
  std::uint32_t to_come_ = 0;
  std::uint32_t steps_ = 0;
  bool is_peaceful_ = false;  // nothing is cut, and nobody lies
  bool is_hurrying_ = false;
};

}  // namespace
}  // namespace phub::simulation

int main(int argc, char** argv) {
  return phub::simulation::run_seeds(
      argc, argv, [](std::uint64_t seed) { return phub::simulation::RacksSimulation(seed).run(); });
}
