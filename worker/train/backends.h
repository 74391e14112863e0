// The compute backends that a configuration can ask for.
#pragma once

#include <memory>
#include <optional>
#include <string_view>

#include "common/base/status.h"
#include "worker/nn/plugin.h"
#include "worker/nn/program.h"

namespace phub::train {

enum class BackendKind { kOnednn, kReference, kCuda };

// "onednn", "reference", "cuda"; nothing for any other word.
std::optional<BackendKind> parse_backend_kind(std::string_view word);

// Of kCuda. The batch and the compute type in it are those of ProgramOptions.
struct CudaOptions {
  nn::PluginPlaces plugin{};
  nn::DeviceProgramOptions program{};
};

struct ProgramOptions {
  BackendKind backend = BackendKind::kOnednn;
  DataType compute_type = DataType::kFloat32;
  std::uint32_t batch = 1;
  std::uint32_t threads = 1;  // compute threads, the calling one included; CPUs only
  CudaOptions cuda{};
  nn::KernelOptions kernels{};  // of kOnednn
};

// The graph, runnable. The calling thread becomes the program's. Errors name the option.
Result<std::unique_ptr<nn::Program>> make_program(const nn::Graph& graph,
                                                  const ProgramOptions& options);

}  // namespace phub::train
