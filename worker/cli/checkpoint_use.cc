#include "worker/cli/checkpoint_use.h"

#include <utility>

#include "worker/cli/options/exit_status.h"
#include "worker/cli/options/run_options.h"

namespace phub {

Result<CheckpointUse> use_of_checkpoint(const WorkerConfig& config, const RunArguments& run,
                                        const std::string& path) {
  auto network = network_of(config.model());
  if (!network) return network.error().with_context("model");
  CheckpointUse use{.path = path.empty() ? config.train().checkpoint() : path,
                    .options = session_of(config, std::move(*network), false)};
  use.options.note = print_note;
  if (use.path.empty()) {
    return Status(Code::kInvalidArgument,
                  "--checkpoint: is missing, and the configuration has no train.checkpoint: give "
                  "the safetensors file of the network");
  }
  if (use.options.executor.backend == train::BackendKind::kCuda) {
    use.options.executor.cuda = cuda_of(config, run.cuda);
  }
  KernelArguments kernels = run.kernels;
  if (kernels.rule.empty()) kernels.rule = "own";  // too short a run to measure for
  use.options.executor.kernels = kernel_options(kernels, nullptr);
  return use;
}

}  // namespace phub
