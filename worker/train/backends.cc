#include "worker/train/backends.h"

#include "worker/nn/onednn.h"
#include "worker/nn/reference.h"

namespace phub::train {

std::optional<BackendKind> parse_backend_kind(std::string_view word) {
  if (word == "onednn") return BackendKind::kOnednn;
  if (word == "reference") return BackendKind::kReference;
  return {};
}

Result<std::unique_ptr<nn::Backend>> make_backend(BackendKind kind,
                                                  const nn::BackendOptions& options) {
  return kind == BackendKind::kReference ? nn::make_reference_backend(options)
                                         : nn::make_onednn_backend(options);
}

}  // namespace phub::train
