// Several engines for a graph, planned at the same time: cuDNN compiles one for a second or two, on
// one CPU, and a tuner wants ten of them for each graph.
//
// Each thread has a target, and so a handle of cuDNN's, of its own, which its plans are run with
// afterwards: a handle is for one thread at a time. Owned by the backend, whose thread calls it.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "common/base/status.h"
#include "worker/cuda/cudnn/plan.h"
#include "worker/cuda/cudnn/target.h"

namespace phub::nn::cuda {

struct PlannedEngine {
  EngineChoice choice{};
  std::shared_ptr<const CudnnPlan> plan{};  // null: why it cannot be planned
  Status why{};
  CudnnTarget* target = nullptr;  // what the plan runs with
};

struct ConcurrentPlannerOptions {
  std::size_t threads = 1;
  std::function<Result<std::unique_ptr<CudnnTarget>>()> make_target;
  // Each thread's first call: makes the device its current one.
  std::function<Status()> begin_thread = [] { return Status(); };
};

class ConcurrentPlanner {
 public:
  // Errors: of the first target. Where no further ones can be made there are fewer threads.
  static Result<std::unique_ptr<ConcurrentPlanner>> create(const ConcurrentPlannerOptions& options);

  ConcurrentPlanner(const ConcurrentPlanner&) = delete;
  ConcurrentPlanner& operator=(const ConcurrentPlanner&) = delete;

  std::size_t threads() const { return targets_.size(); }

  // One for each candidate, in their order. The plans go before this object does.
  std::vector<PlannedEngine> plan(const OpGraph& graph,
                                  std::span<const EngineCandidate> candidates);

 private:
  explicit ConcurrentPlanner(const ConcurrentPlannerOptions& options) : options_(options) {}

  ConcurrentPlannerOptions options_;
  std::vector<std::unique_ptr<CudnnTarget>> targets_;
};

}  // namespace phub::nn::cuda
