// A lowered network on a GPU: its memory, a plan for each of its graphs, and its passes.
//
// Equal graphs share a plan (engine_book.h); all share one workspace, so the passes of one network
// run on one stream at a time. Everything is made by create(); passes allocate nothing, queue their
// work and return. Owned and used by the backend's thread; the book outlives it.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "worker/cuda/cudnn/plan.h"
#include "worker/cuda/lowered/memory_plan.h"
#include "worker/cuda/lowered/runner.h"
#include "worker/cuda/planned/engine_book.h"
#include "worker/cuda/runtime/device.h"

namespace phub::nn::cuda {

struct PlanOptions {
  DataType compute_type = DataType::kFloat16;  // as lowered
  // Told before each graph that is planned: which of how many.
  std::function<void(std::size_t done, std::size_t all)> progress = [](std::size_t, std::size_t) {};
};

class PlannedNetwork {
 public:
  // Errors name the graph that has no engine, or the memory that is missing.
  static Result<std::unique_ptr<PlannedNetwork>> create(EngineBook& book, Lowered lowered,
                                                        const PlanOptions& options);

  const Lowered& lowered() const { return lowered_; }
  void* address(BufferId id) const { return memory_->as<std::byte>(plan_.offsets[id]); }
  std::size_t workspace_bytes() const { return workspace_->bytes; }

  // What dropout of the following passes draws from (Backend::set_noise). Waits for the copy.
  Status set_noise(std::uint64_t noise, cudaStream_t stream);
  std::uint64_t* dropout_keys() const { return dropout_keys_->as<std::uint64_t>(); }
  Status run(Pass pass, cudaStream_t stream);
  // Steps [first, last) of it.
  Status run(Pass pass, std::size_t first, std::size_t last, cudaStream_t stream);
  std::size_t graphs() const { return plans_.size(); }  // different ones

 private:
  struct Runnable {
    const Step* step = nullptr;
    const CudnnPlan* plan = nullptr;  // of a GraphStep
    DescriptorPointer bound;
  };

  PlannedNetwork(EngineBook& book, Lowered lowered, const PlanOptions& options)
      : book_(book), options_(options), lowered_(std::move(lowered)) {}

  Status prepare();
  Status plan_graphs();
  Result<std::vector<Runnable>> bind(const std::vector<Step>& steps) const;
  Status run(const Runnable& runnable, cudaStream_t stream) const;
  std::vector<Runnable>& runnables(Pass pass) { return runnables_[static_cast<std::size_t>(pass)]; }

  EngineBook& book_;
  PlanOptions options_;
  Lowered lowered_;
  MemoryPlan plan_;
  BlockPointer memory_, workspace_, dropout_keys_;  // keys: one for each layer
  std::map<std::string, const CudnnPlan*> plans_;   // by OpGraph::key()
  std::vector<Runnable> runnables_[kPasses];
};

}  // namespace phub::nn::cuda
