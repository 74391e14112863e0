// A plug-in for tests: libphub_cuda.so's executor, with the host in the place of a GPU
// (tests/cuda/support/host_runtime.h).
#include <string>
#include <utility>
#include <vector>

#include "tests/cuda/support/host_collectives.h"
#include "tests/cuda/support/host_runtime.h"
#include "worker/cuda/executor/cuda_executor.h"
#include "worker/cuda/group/gpu_group.h"
#include "worker/cuda/lowering/lowering.h"
#include "worker/nn/plugin.h"

namespace phub::testing {
namespace {

constexpr std::uint32_t kDevices = 4;

struct OneDevice {
  HostRuntime* runtime = nullptr;  // the passes'
  std::unique_ptr<nn::cuda::DevicePasses> passes{};
};

Result<OneDevice> make_one(const nn::Graph& graph, const nn::DeviceExecutorOptions& options,
                           std::shared_ptr<HostMachine> machine, std::uint32_t batch) {
  auto runtime = std::make_unique<HostRuntime>(HostRuntime::Options{}, std::move(machine));
  PHUB_ASSIGN_OR_RETURN(auto lowered,
                        nn::cuda::lower(graph, {.batch = batch,
                                                .compute_type = options.compute_type,
                                                .fuse = options.fusion != nn::Fusion::kUnfused}));
  auto runner = std::make_unique<HostRunner>(*runtime, std::move(lowered));
  OneDevice device{.runtime = runtime.get()};
  PHUB_ASSIGN_OR_RETURN(device.passes,
                        nn::cuda::DevicePasses::create(
                            graph, std::move(runtime), std::move(runner),
                            {.batch = batch, .capture = options.capture, .note = options.note}));
  return device;
}

Result<std::unique_ptr<nn::Executor>> make_several(const nn::Graph& graph,
                                                   const nn::DeviceExecutorOptions& options) {
  options.note("several of them: " + std::to_string(options.devices.size()));
  const auto machine = std::make_shared<HostMachine>(1);
  std::vector<nn::cuda::GpuRank> gpus;
  std::vector<HostRuntime*> runtimes;
  const auto parts = static_cast<std::uint32_t>(options.devices.size());
  for (const std::uint32_t number : options.devices) {
    if (number >= kDevices) {
      return Status(Code::kInvalidArgument, "train.devices: there is no GPU " +
                                                std::to_string(number) + ", they are 0 to " +
                                                std::to_string(kDevices - 1));
    }
    auto made = make_one(graph, options, machine, options.batch / parts);
    if (!made) return made.error();
    runtimes.push_back(made->runtime);
    gpus.push_back({.device = number, .passes = std::move(made->passes)});
  }
  auto collectives =
      std::make_unique<HostCollectives>(runtimes, machine, HostCollectives::Options{});
  PHUB_ASSIGN_OR_RETURN(
      auto group, nn::cuda::GpuGroup::create(std::move(gpus), std::move(collectives),
                                             {.timeout = options.timeout, .note = options.note}));
  return std::unique_ptr<nn::Executor>(std::move(group));
}

Result<std::unique_ptr<nn::Executor>> make_executor(const nn::Graph& graph,
                                                    const nn::DeviceExecutorOptions& options) {
  if (options.device != 0) return Status(Code::kInvalidArgument, "train.device: there is only 0");
  const bool fuses = options.fusion != nn::Fusion::kUnfused;
  options.note("a stand-in for a GPU, " + std::string(name_of(options.compute_type)) +
               (fuses ? "" : ", unfused"));
  if (options.devices.size() > 1) return make_several(graph, options);
  PHUB_ASSIGN_OR_RETURN(auto device,
                        make_one(graph, options, std::make_shared<HostMachine>(1), options.batch));
  return std::unique_ptr<nn::Executor>(
      std::make_unique<nn::cuda::CudaExecutor>(std::move(device.passes)));
}

}  // namespace
}  // namespace phub::testing

extern "C" __attribute__((visibility("default"))) const phub::nn::Plugin* phub_plugin() {
  static const std::string abi = phub::nn::plugin_abi();
  static const phub::nn::Plugin plugin{abi.c_str(), &phub::testing::make_executor};
  return &plugin;
}
