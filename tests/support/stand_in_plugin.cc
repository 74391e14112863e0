// A plug-in for tests: libphub_cuda.so's program, with the host in the place of a GPU
// (tests/support/host_runtime.h).
#include "tests/support/host_runtime.h"
#include "worker/nn/cuda/cuda_program.h"
#include "worker/nn/cuda/lowering.h"
#include "worker/nn/plugin.h"

namespace phub::testing {
namespace {

Result<std::unique_ptr<nn::Program>> make_program(const nn::Graph& graph,
                                                  const nn::DeviceProgramOptions& options) {
  if (options.device != 0) return Status(Code::kInvalidArgument, "train.device: there is only 0");
  const bool fuses = options.fusion != nn::Fusion::kUnfused;
  options.note("a stand-in for a GPU, " + std::string(name_of(options.compute_type)) +
               (fuses ? "" : ", unfused"));
  auto runtime = std::make_unique<HostRuntime>(HostRuntime::Options{});
  PHUB_ASSIGN_OR_RETURN(auto lowered, nn::cuda::lower(graph, {.batch = options.batch,
                                                              .compute_type = options.compute_type,
                                                              .fuse = fuses}));
  auto runner = std::make_unique<HostRunner>(*runtime, std::move(lowered));
  PHUB_ASSIGN_OR_RETURN(
      auto program, nn::cuda::CudaProgram::create(
                        graph, std::move(runtime), std::move(runner),
                        {.batch = options.batch, .record = options.record, .note = options.note}));
  return std::unique_ptr<nn::Program>(std::move(program));
}

}  // namespace
}  // namespace phub::testing

extern "C" __attribute__((visibility("default"))) const phub::nn::Plugin* phub_plugin() {
  static const std::string abi = phub::nn::plugin_abi();
  static const phub::nn::Plugin plugin{abi.c_str(), &phub::testing::make_program};
  return &plugin;
}
