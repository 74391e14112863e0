// libphub_cuda.so: what phub-worker asks for the backend `cuda`.
#include "worker/nn/plugin.h"

#include <string>
#include <utility>
#include <vector>

#include "worker/cuda/executor/cuda_executor.h"
#include "worker/cuda/group/gpu_group.h"
#include "worker/cuda/group/group_collectives.h"
#include "worker/cuda/planned/runner.h"
#include "worker/cuda/runtime/cuda_runtime.h"

namespace phub::nn::cuda {
namespace {

std::string description(const CudaRuntime& runtime, const PlannedRunner& runner,
                        const DeviceExecutorOptions& options) {
  return runtime.device_name() + ", cuDNN " + std::to_string(runner.library().version()) +
         " from " + runner.library().path() + ", " + std::string(name_of(options.compute_type)) +
         ", " + std::to_string(runner.network().graphs()) + " different graphs, " +
         (options.fusion == Fusion::kUnfused
              ? std::string("nothing fused")
              : std::to_string(runner.unfused_blocks()) + " blocks not fused") +
         ", " + std::to_string(runner.tuned()) + " engines measured now";
}

struct OneGpu {
  CudaRuntime* runtime = nullptr;  // the passes'
  std::unique_ptr<DevicePasses> passes{};
};

// A part of options.batch on one of the devices; lowered as `like` is, unless that is null.
Result<OneGpu> make_one(const Graph& graph, const DeviceExecutorOptions& options,
                        std::uint32_t device, std::uint32_t batch, const DevicePasses* like) {
  PHUB_ASSIGN_OR_RETURN(
      auto runtime,
      CudaRuntime::create(device, options.devices.empty() ? "train.device" : "train.devices"));
  PlannedRunnerOptions planned;
  planned.lowering.batch = batch;
  planned.lowering.compute_type = options.compute_type;
  planned.fusion = options.fusion;
  planned.tune = options.tune;
  planned.plan_threads = options.plan_threads;
  planned.chosen = like != nullptr ? &like->runner().lowered() : nullptr;
  planned.engine_cache = options.engine_cache;
  planned.libraries = options.libraries;
  planned.note = options.note;
  planned.progress = options.progress;
  PHUB_ASSIGN_OR_RETURN(auto runner, PlannedRunner::create(*runtime, graph, std::move(planned)));
  options.note(like != nullptr ? runtime->device_name() + ", the same"
                               : description(*runtime, *runner, options));
  OneGpu gpu{.runtime = runtime.get()};
  PHUB_ASSIGN_OR_RETURN(gpu.passes,
                        DevicePasses::create(graph, std::move(runtime), std::move(runner),
                                             {.batch = batch,
                                              .capture = options.capture,
                                              .timeout = options.timeout,
                                              .note = options.note}));
  return gpu;
}

Result<std::unique_ptr<Executor>> make_several(const Graph& graph,
                                               const DeviceExecutorOptions& options) {
  PHUB_RETURN_IF_ERROR(check_collectives(options));
  std::vector<GpuRank> gpus;
  std::vector<GroupDevice> ranks;
  const auto parts = static_cast<std::uint32_t>(options.devices.size());
  for (const std::uint32_t device : options.devices) {
    // What is fused is chosen once: the group runs all by one schedule.
    const DevicePasses* const like = gpus.empty() ? nullptr : gpus.front().passes.get();
    auto made = make_one(graph, options, device, options.batch / parts, like);
    if (!made) return made.error();
    ranks.push_back({.device = device, .runtime = made->runtime});
    gpus.push_back({.device = device, .passes = std::move(made->passes)});
  }
  PHUB_ASSIGN_OR_RETURN(auto collectives, make_collectives(ranks, options));
  PHUB_ASSIGN_OR_RETURN(auto group,
                        GpuGroup::create(std::move(gpus), std::move(collectives),
                                         {.timeout = options.timeout, .note = options.note}));
  return std::unique_ptr<Executor>(std::move(group));
}

Result<std::unique_ptr<Executor>> make_executor(const Graph& graph,
                                                const DeviceExecutorOptions& options) {
  if (options.devices.size() > 1) return make_several(graph, options);
  const std::uint32_t device = options.devices.empty() ? options.device : options.devices.front();
  PHUB_ASSIGN_OR_RETURN(OneGpu gpu, make_one(graph, options, device, options.batch, nullptr));
  return std::unique_ptr<Executor>(std::make_unique<CudaExecutor>(std::move(gpu.passes)));
}

}  // namespace
}  // namespace phub::nn::cuda

extern "C" __attribute__((visibility("default"))) const phub::nn::Plugin* phub_plugin() {
  static const std::string abi = phub::nn::plugin_abi();
  static const phub::nn::Plugin plugin{abi.c_str(), &phub::nn::cuda::make_executor};
  return &plugin;
}
