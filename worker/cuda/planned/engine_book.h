// The plans of a network's graphs: each different graph has one, made when it is first asked for.
//
// Takes the engines that the cache knows, else measures them or takes the first that the heuristics
// give. Owns the plans and the workspace of measurements. The backend's thread; the target and the
// cache outlive it.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/status.h"
#include "worker/cuda/cudnn/concurrent_planner.h"
#include "worker/cuda/cudnn/plan.h"
#include "worker/cuda/cudnn/target.h"
#include "worker/cuda/lowered/lowered.h"
#include "worker/cuda/planned/measurement_buffers.h"
#include "worker/cuda/runtime/device.h"
#include "worker/cuda/tuning/autotuner.h"
#include "worker/cuda/tuning/engine_cache.h"

namespace phub::nn::cuda {

struct EngineBookOptions {
  std::int64_t workspace_limit = std::int64_t{1} << 30U;
  bool tune = false;  // measures the engines of graphs that the cache does not know
  ConcurrentPlanner* planner = nullptr;  // what is measured is planned by it; null: one by one
  // Sentences about what failed and does not end the run.
  std::function<void(std::string_view)> note = [](std::string_view) {};
};

// Where a buffer of the network is.
using AddressOf = std::function<void*(BufferId id)>;
std::vector<void*> addresses_of(const GraphStep& step, const AddressOf& address);

class EngineBook {
 public:
  EngineBook(CudnnTarget& target, EngineCache& cache, EngineBookOptions options)
      : target_(target), cache_(cache), options_(std::move(options)) {}

  // Valid as long as the book. Measures on the step's buffers and writes to them. Errors name the
  // graph: kNotFound if no engine takes it, or why those that could be planned did not run.
  Result<const CudnnPlan*> plan(const GraphStep& step, const AddressOf& address);
  // Whether there is an engine, without a measurement: kNotFound and why. With `tune`, the
  // heuristics' word.
  Status supports(const OpGraph& graph);

  // At least so many bytes; what was given before is gone when it grows.
  Result<void*> workspace(std::size_t bytes);
  // And what measurements have beside it.
  void free_workspace() {
    workspace_.reset();
    buffers_.free();
  }
  // The planner goes: what is asked for from now on is planned here.
  void end_measuring() { options_.planner = nullptr; }
  CudnnTarget& target() { return target_; }
  const EngineBookOptions& options() const { return options_; }
  std::size_t tuned() const { return tuned_; }  // graphs that were measured

 private:
  using PlanPointer = std::unique_ptr<CudnnPlan>;

  Result<PlanPointer> known(const OpGraph& graph) const;
  Result<PlanPointer> first(const OpGraph& graph) const;
  Result<PlanPointer> fastest(const GraphStep& step, const AddressOf& address);
  // `sets`: the addresses of launches in turn.
  Result<TimedRun> timed(const PlannedEngine& engine, const std::vector<std::vector<void*>>& sets);
  void remember(const OpGraph& graph, const Tuning& tuning);

  CudnnTarget& target_;
  EngineCache& cache_;
  EngineBookOptions options_;
  std::map<std::string, PlanPointer> plans_;  // by OpGraph::key()
  std::map<std::string, Status> supported_;
  BlockPointer workspace_;
  MeasurementBuffers buffers_;
  std::size_t tuned_ = 0;
  bool told_cache_ = false;
};

}  // namespace phub::nn::cuda
