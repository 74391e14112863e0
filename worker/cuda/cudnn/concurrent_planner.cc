#include "worker/cuda/cudnn/concurrent_planner.h"

#include <algorithm>
#include <atomic>
#include <system_error>
#include <thread>
#include <utility>

namespace phub::nn::cuda {

Result<std::unique_ptr<ConcurrentPlanner>> ConcurrentPlanner::create(
    const ConcurrentPlannerOptions& options) {
  std::unique_ptr<ConcurrentPlanner> planner(new ConcurrentPlanner(options));
  for (std::size_t i = 0; i < std::max<std::size_t>(options.threads, 1); ++i) {
    auto target = options.make_target();
    if (!target && i == 0) return target.error();
    if (!target) break;
    planner->targets_.push_back(std::move(*target));
  }
  return planner;
}

std::vector<PlannedEngine> ConcurrentPlanner::plan(const OpGraph& graph,
                                                   std::span<const EngineCandidate> candidates) {
  std::vector<PlannedEngine> engines(candidates.size());
  std::atomic<std::size_t> next{0};
  const auto work = [&](CudnnTarget& target) {
    for (std::size_t i = next++; i < engines.size(); i = next++) {
      PlannedEngine& engine = engines[i];
      engine.choice = candidates[i].choice;
      engine.target = &target;
      auto plan = CudnnPlan::create(target, graph, engine.choice);
      if (plan) engine.plan = std::move(*plan);
      if (!plan) engine.why = plan.error();
    }
  };
  std::vector<std::jthread> threads;
  for (std::size_t i = 1; i < std::min(targets_.size(), candidates.size()); ++i) {
    try {
      threads.emplace_back([&, i] {
        if (options_.begin_thread().ok()) work(*targets_[i]);
      });
    } catch (const std::system_error&) {
      break;  // no more threads: those that there are do it
    }
  }
  work(*targets_.front());
  threads.clear();  // joins them
  return engines;
}

}  // namespace phub::nn::cuda
