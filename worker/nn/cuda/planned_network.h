// A lowered network on a GPU: its memory, a plan for each of its graphs, and its passes.
//
// Equal graphs share a plan; all share one workspace, so the passes of one network run on one
// stream at a time. Everything is made by create(); passes allocate nothing, queue their work and
// return. Owned and used by the backend's thread; the target and what it was made for outlive it.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "worker/nn/cuda/autotuner.h"
#include "worker/nn/cuda/cudnn_plan.h"
#include "worker/nn/cuda/cudnn_target.h"
#include "worker/nn/cuda/device.h"
#include "worker/nn/cuda/engine_cache.h"
#include "worker/nn/cuda/lowered_runner.h"
#include "worker/nn/cuda/memory_plan.h"

namespace phub::nn::cuda {

struct PlanOptions {
  DataType compute_type = DataType::kFloat16;  // as lowered
  std::int64_t workspace_limit = std::int64_t{1} << 30U;
  bool tune = false;  // measures the engines of graphs that the cache does not know
  // Told before each graph that is measured: which of how many.
  std::function<void(std::size_t done, std::size_t all)> progress = [](std::size_t, std::size_t) {};
};

class PlannedNetwork {
 public:
  // Takes the engines that `cache` knows, else measures, or takes the first that the heuristics
  // give. Errors name the graph that has none, or the memory that is missing.
  static Result<std::unique_ptr<PlannedNetwork>> create(CudnnTarget& target, Lowered lowered,
                                                        EngineCache& cache,
                                                        const PlanOptions& options);

  PlannedNetwork(const PlannedNetwork&) = delete;
  PlannedNetwork& operator=(const PlannedNetwork&) = delete;

  const Lowered& lowered() const { return lowered_; }
  void* address(BufferId id) const { return memory_->at(plan_.offsets[id]); }
  std::size_t workspace_bytes() const { return workspace_->bytes(); }

  // What dropout of the following passes draws from (Backend::set_noise). Waits for the copy.
  Status set_noise(std::uint64_t noise, cudaStream_t stream);
  std::uint64_t* dropout_keys() const { return static_cast<std::uint64_t*>(dropout_keys_->at(0)); }
  Status run(Pass pass, cudaStream_t stream);
  // Steps [first, last) of it.
  Status run(Pass pass, std::size_t first, std::size_t last, cudaStream_t stream);
  std::size_t tuned() const { return tuned_; }          // graphs that were measured
  std::size_t graphs() const { return plans_.size(); }  // different ones

 private:
  struct Runnable {
    const Step* step = nullptr;
    const CudnnPlan* plan = nullptr;  // of a GraphStep
    DescriptorPointer bound;
  };

  PlannedNetwork(CudnnTarget& target, Lowered lowered, const PlanOptions& options)
      : target_(target), options_(options), lowered_(std::move(lowered)) {}

  Status prepare(EngineCache& cache);
  Status plan_graphs(EngineCache& cache);
  Result<std::unique_ptr<CudnnPlan>> make_plan(const GraphStep& step, EngineCache& cache);
  Result<TimedRun> timed(const GraphStep& step, const EngineChoice& choice);
  std::vector<void*> addresses_of(const GraphStep& step) const;
  Result<std::vector<Runnable>> bind(const std::vector<Step>& steps) const;
  Status run(const Runnable& runnable, cudaStream_t stream) const;
  std::vector<Runnable>& runnables(Pass pass);

  CudnnTarget& target_;
  PlanOptions options_;
  Lowered lowered_;
  MemoryPlan plan_;
  std::unique_ptr<DeviceMemory> memory_, workspace_, dropout_keys_;  // keys: one for each layer
  std::map<std::string, std::unique_ptr<CudnnPlan>> plans_;          // by OpGraph::key()
  std::vector<Runnable> forward_, backward_, inference_;
  std::size_t tuned_ = 0;
};

}  // namespace phub::nn::cuda
