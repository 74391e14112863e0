// A plug-in for tests: libphub_cuda.so's place with a CPU's backend in it.
#include "worker/nn/network.h"
#include "worker/nn/plugin.h"
#include "worker/nn/reference.h"

namespace phub::nn {
namespace {

Result<std::unique_ptr<Program>> make_program(const Graph& graph,
                                              const DeviceProgramOptions& options) {
  if (options.device != 0) return Status(Code::kInvalidArgument, "train.device: there is only 0");
  options.note("a stand-in for a GPU, " + std::string(name_of(options.compute_type)));
  PHUB_ASSIGN_OR_RETURN(auto backend, make_reference_backend({}));
  PHUB_ASSIGN_OR_RETURN(auto network,
                        Network::create(graph, std::move(backend), {.batch = options.batch}));
  return std::unique_ptr<Program>(std::move(network));
}

}  // namespace
}  // namespace phub::nn

extern "C" const phub::nn::Plugin* phub_plugin() {
  static const std::string abi = phub::nn::plugin_abi();
  static const phub::nn::Plugin plugin{abi.c_str(), &phub::nn::make_program};
  return &plugin;
}
