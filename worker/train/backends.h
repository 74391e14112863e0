// The compute backends that a configuration can ask for.
#pragma once

#include <memory>
#include <optional>
#include <string_view>

#include "common/base/status.h"
#include "worker/nn/ops.h"

namespace phub::train {

enum class BackendKind { kOnednn, kReference };

// "onednn", "reference"; nothing for any other word.
std::optional<BackendKind> parse_backend_kind(std::string_view word);

Result<std::unique_ptr<nn::Backend>> make_backend(BackendKind kind,
                                                  const nn::BackendOptions& options);

}  // namespace phub::train
