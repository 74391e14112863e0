#include "worker/nn/cuda/planned_runner.h"

#include <utility>

#include "common/base/check.h"

namespace phub::nn::cuda {

Result<std::unique_ptr<PlannedRunner>> PlannedRunner::create(const CudaRuntime& runtime,
                                                             const Graph& graph,
                                                             const PlannedRunnerOptions& options) {
  std::unique_ptr<PlannedRunner> runner(new PlannedRunner(runtime));
  PHUB_ASSIGN_OR_RETURN(Lowered lowered, lower(graph, options.lowering));
  PHUB_ASSIGN_OR_RETURN(runner->library_, CudnnLibrary::open(options.libraries));
  PHUB_ASSIGN_OR_RETURN(runner->target_, CudnnTarget::current_device(*runner->library_));
  PHUB_ASSIGN_OR_RETURN(
      EngineCache cache,
      EngineCache::open(options.engine_cache,
                        {.cudnn_version = static_cast<std::int64_t>(runner->library_->version()),
                         .device = runtime.device_name()}));
  PHUB_ASSIGN_OR_RETURN(runner->network_,
                        PlannedNetwork::create(*runner->target_, std::move(lowered), cache,
                                               {.compute_type = options.lowering.compute_type,
                                                .tune = options.tune,
                                                .progress = options.progress}));
  return runner;
}

DataType PlannedRunner::type_of(BufferId id) const {
  switch (lowered().buffer(id).type) {
    case ElementType::kFloat16:
      return DataType::kFloat16;
    case ElementType::kBfloat16:
      return DataType::kBfloat16;
    case ElementType::kFloat32:
      return DataType::kFloat32;
    case ElementType::kInt8:
      break;
  }
  PHUB_CHECK(false, "a buffer of indices has no such type");
  return DataType::kFloat32;
}

}  // namespace phub::nn::cuda
