// A network that is lowered and planned for a GPU, as a runner of its passes.
//
// Owns cuDNN and the plans; the runtime outlives it. The executor's thread.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "worker/cuda/lowered/runner.h"
#include "worker/cuda/lowering/lowering.h"
#include "worker/cuda/planned/engine_book.h"
#include "worker/cuda/planned/network.h"
#include "worker/cuda/runtime/cuda_runtime.h"
#include "worker/cuda/tuning/fusion_search.h"
#include "worker/nn/graph/graph.h"

namespace phub::nn::cuda {

struct PlannedRunnerOptions {
  LoweringOptions lowering;  // but for what is fused
  Fusion fusion = Fusion::kTuned;
  bool tune = false;
  std::uint32_t plan_threads = 0;        // as DeviceExecutorOptions
  const Lowered* chosen = nullptr;       // instead: as another GPU with the same work has it
  std::filesystem::path engine_cache{};  // empty: nothing is remembered
  std::vector<std::filesystem::path> libraries{};  // folders to look for cuDNN in
  std::function<void(std::string_view)> note = [](std::string_view) {};
  std::function<void(std::size_t, std::size_t)> progress = [](std::size_t, std::size_t) {};
};

class PlannedRunner : public LoweredRunner {
 public:
  static Result<std::unique_ptr<PlannedRunner>> create(const CudaRuntime& runtime,
                                                       const Graph& graph,
                                                       const PlannedRunnerOptions& options);

  const Lowered& lowered() const override { return network_->lowered(); }
  void* address(BufferId id) const override { return network_->address(id); }
  DataType type_of(BufferId id) const override;
  std::uint64_t* dropout_keys() const override { return network_->dropout_keys(); }
  Status run(Pass pass, std::size_t first, std::size_t last) override {
    return network_->run(pass, first, last, runtime_.cuda_stream(Stream::kCompute));
  }

  Result<std::vector<double>> time(Pass pass) override;

  const CudnnLibrary& library() const { return *library_; }
  const PlannedNetwork& network() const { return *network_; }
  std::size_t tuned() const { return book_->tuned(); }  // graphs that were measured
  // Blocks of fusion that are not, unless that was asked for.
  std::size_t unfused_blocks() const { return unfused_blocks_; }

 private:
  explicit PlannedRunner(const CudaRuntime& runtime) : runtime_(runtime) {}

  Status make_planner(const PlannedRunnerOptions& options);
  Result<Lowered> lower_with(const Graph& graph, const PlannedRunnerOptions& options);

  const CudaRuntime& runtime_;
  std::unique_ptr<CudnnLibrary> library_;
  std::unique_ptr<CudnnTarget> target_;
  std::unique_ptr<EngineCache> cache_;
  std::unique_ptr<ConcurrentPlanner> planner_;  // of a tuner, until all is planned
  std::unique_ptr<EngineBook> book_;
  std::unique_ptr<PlannedNetwork> network_;
  std::size_t unfused_blocks_ = 0;
};

}  // namespace phub::nn::cuda
