// The compute backends that a configuration can ask for.
#pragma once

#include <memory>
#include <optional>
#include <string_view>

#include "common/base/status.h"
#include "worker/nn/executor.h"
#include "worker/nn/plugin.h"

namespace phub::train {

enum class BackendKind { kOnednn, kReference, kCuda };

// "onednn", "reference", "cuda"; nothing for any other word.
std::optional<BackendKind> parse_backend_kind(std::string_view word);

// Of kCuda. The batch and the compute type in it are those of ExecutorOptions.
struct CudaOptions {
  nn::PluginPlaces plugin{};
  nn::DeviceExecutorOptions executor{};
};

struct ExecutorOptions {
  BackendKind backend = BackendKind::kOnednn;
  DataType compute_type = DataType::kFloat32;
  std::uint32_t batch = 1;
  std::uint32_t threads = 1;  // compute threads, the calling one included; CPUs only
  std::uint32_t groups = 1;   // replicas that share the batch, each with so many threads; CPUs only
  CudaOptions cuda{};
  nn::KernelOptions kernels{};  // of kOnednn
};

// The graph, runnable. The calling thread becomes the executor's. Errors name the option.
Result<std::unique_ptr<nn::Executor>> make_executor(const nn::Graph& graph,
                                                    const ExecutorOptions& options);

}  // namespace phub::train
