// The compute backends that a configuration can ask for.
#pragma once

#include <memory>
#include <optional>
#include <string_view>

#include "common/base/status.h"
#include "worker/nn/program.h"

namespace phub::train {

enum class BackendKind { kOnednn, kReference };

// "onednn", "reference"; nothing for any other word.
std::optional<BackendKind> parse_backend_kind(std::string_view word);

struct ProgramOptions {
  BackendKind backend = BackendKind::kOnednn;
  DataType compute_type = DataType::kFloat32;
  std::uint32_t batch = 1;
  std::uint32_t threads = 1;  // compute threads, the calling one included
};

// The graph, runnable. The calling thread becomes the program's. Errors name the option.
Result<std::unique_ptr<nn::Program>> make_program(const nn::Graph& graph,
                                                  const ProgramOptions& options);

}  // namespace phub::train
