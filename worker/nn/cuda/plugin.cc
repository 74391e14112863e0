// libphub_cuda.so: what phub-worker asks for the backend `cuda`.
#include "worker/nn/plugin.h"

#include <string>
#include <utility>

#include "worker/nn/cuda/cuda_program.h"
#include "worker/nn/cuda/cuda_runtime.h"
#include "worker/nn/cuda/planned_runner.h"

namespace phub::nn::cuda {
namespace {

std::string description(const CudaRuntime& runtime, const PlannedRunner& runner,
                        const DeviceProgramOptions& options) {
  return runtime.device_name() + ", cuDNN " + std::to_string(runner.library().version()) +
         " from " + runner.library().path() + ", " + std::string(name_of(options.compute_type)) +
         ", " + std::to_string(runner.network().graphs()) + " different graphs, " +
         (options.fusion == Fusion::kUnfused
              ? std::string("nothing fused")
              : std::to_string(runner.unfused_blocks()) + " blocks not fused") +
         ", " + std::to_string(runner.tuned()) + " engines measured now";
}

Result<std::unique_ptr<Program>> make_program(const Graph& graph,
                                              const DeviceProgramOptions& options) {
  PHUB_ASSIGN_OR_RETURN(auto runtime, CudaRuntime::create(options.device));
  PHUB_ASSIGN_OR_RETURN(
      auto runner, PlannedRunner::create(
                       *runtime, graph,
                       {.lowering = {.batch = options.batch, .compute_type = options.compute_type},
                        .fusion = options.fusion,
                        .tune = options.tune,
                        .engine_cache = options.engine_cache,
                        .libraries = options.libraries,
                        .note = options.note,
                        .progress = options.progress}));
  options.note(description(*runtime, *runner, options));
  PHUB_ASSIGN_OR_RETURN(
      auto program, CudaProgram::create(
                        graph, std::move(runtime), std::move(runner),
                        {.batch = options.batch, .record = options.record, .note = options.note}));
  return std::unique_ptr<Program>(std::move(program));
}

}  // namespace
}  // namespace phub::nn::cuda

extern "C" __attribute__((visibility("default"))) const phub::nn::Plugin* phub_plugin() {
  static const std::string abi = phub::nn::plugin_abi();
  static const phub::nn::Plugin plugin{abi.c_str(), &phub::nn::cuda::make_program};
  return &plugin;
}
