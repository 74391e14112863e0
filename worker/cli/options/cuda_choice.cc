#include "worker/cli/options/cuda_choice.h"

#include <fmt/core.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <string_view>
#include <system_error>

#include "worker/cli/options/cache_folder.h"
#include "worker/cli/options/exit_status.h"

namespace phub {
namespace {

constexpr const char* kGpuGroup = "GPU (backend cuda)";

nn::Fusion fusion_of(std::string_view word) {
  if (word == "fused") return nn::Fusion::kFused;
  return word == "unfused" ? nn::Fusion::kUnfused : nn::Fusion::kTuned;
}

void print_progress(std::size_t done, std::size_t all) {
  if (isatty(STDERR_FILENO) == 0) return;
  fmt::print(stderr, "\rpreparing cuDNN: {} of {} ", done + 1, all);
  if (done + 1 == all) fmt::print(stderr, "\r{:40}\r", "");
}

}  // namespace

void add_cuda_options(CLI::App& command, CudaChoice& choice) {
  const auto add = [&](const char* name, auto& value, const char* type, const char* text) {
    return command.add_option(name, value, text)->type_name(type)->group(kGpuGroup);
  };
  auto* device = add("--device", choice.device, "N", "Which GPU, from 0");
  add("--devices", choice.devices, "N,N...", "Several GPUs: each computes a part of the batch")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->excludes(device);
  add("--cuda-plugin", choice.plugin, "FILE", "libphub_cuda.so, if it is not beside phub-worker")
      ->envname("PHUB_CUDA_PLUGIN");
  add("--cuda-path", choice.libraries, "FOLDER",
      "Where libcudnn.so.9 (and libnccl.so.2) is, if the linker knows not")
      ->envname("PHUB_CUDA_PATH");
  add("--engine-cache", choice.engine_cache, "FILE",
      "What was measured; default: phub/engines.jsonl in the user's cache")
      ->envname("PHUB_ENGINE_CACHE");
  command
      .add_flag("--tune", choice.tune,
                "Measure first what the cache does not know: cuDNN's engines, what is fused")
      ->group(kGpuGroup);
  add("--plan-threads", choice.plan_threads, "N",
      "Threads that compile engines for --tune and tune; 0: one for each CPU")
      ->check(CLI::Range(0U, 64U));
  command
      .add_flag("--unrecorded", choice.unrecorded, "Queue kernel by kernel, without CUDA graphs")
      ->group(kGpuGroup);
  add("--fusion", choice.fusion, "WAY",
      "tuned: each block as it was measured, else fused (default); fused; unfused: layer by layer")
      ->check(CLI::IsMember({"tuned", "fused", "unfused"}));
}

Status check_cuda_choice(const CudaChoice& choice, bool is_cuda) {
  const bool is_asked = choice.device || !choice.devices.empty() || choice.tune ||
                        choice.unrecorded || !choice.fusion.empty() || choice.plan_threads != 0;
  if (is_cuda || !is_asked) return {};
  return {Code::kInvalidArgument,
          "--device, --devices, --tune, --plan-threads, --unrecorded and --fusion are for "
          "--backend cuda: remove "
          "them"};
}

train::CudaOptions cuda_options(const CudaChoice& choice, std::uint32_t device) {
  train::CudaOptions options;
  options.plugin.file = choice.plugin;
  std::error_code ignored;
  options.plugin.folder = std::filesystem::read_symlink("/proc/self/exe", ignored).parent_path();
  options.executor.device = device;
  options.executor.devices = choice.devices;
  options.executor.capture = !choice.unrecorded;
  options.executor.fusion = fusion_of(choice.fusion);
  options.executor.tune = choice.tune;
  options.executor.plan_threads = choice.plan_threads;
  options.executor.engine_cache = choice.engine_cache.empty()
                                      ? cache_file("engines.jsonl")
                                      : std::filesystem::path(choice.engine_cache);
  if (!choice.libraries.empty()) options.executor.libraries = {choice.libraries};
  options.executor.note = print_note;
  options.executor.progress = print_progress;
  return options;
}

}  // namespace phub
