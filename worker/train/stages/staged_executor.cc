#include "worker/train/stages/staged_executor.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"

namespace phub::train {

Result<std::unique_ptr<StagedExecutor>> StagedExecutor::create(const nn::Graph& graph, Make make) {
  std::unique_ptr<StagedExecutor> staged(new StagedExecutor(std::move(make)));
  PHUB_ASSIGN_OR_RETURN(staged->network_, staged->make_(graph));
  staged->parameters_ = staged->network_->parameters();
  return staged;
}

Result<std::vector<nn::StateBuffer>> StagedExecutor::read_buffers() {
  if (held_.empty()) {
    PHUB_ASSIGN_OR_RETURN(held_, network_->read_buffers());
  }
  return held_;
}

Status StagedExecutor::change_to(const nn::Graph& graph) {
  PHUB_ASSIGN_OR_RETURN(const auto before, read_buffers());
  std::vector<std::vector<float>> values;
  for (const nn::StateBuffer& each : before) {
    values.emplace_back(each.values.begin(), each.values.end());
  }
  held_.clear();
  network_.reset();  // its memory is there for the next one
  PHUB_ASSIGN_OR_RETURN(network_, make_(graph));
  PHUB_CHECK(network_->parameters() == parameters_, "a graph with the same parameters");
  PHUB_RETURN_IF_ERROR(bind_again());
  PHUB_ASSIGN_OR_RETURN(const auto after, read_buffers());
  PHUB_CHECK(after.size() == values.size(), "buffers of the same layers");
  for (std::size_t i = 0; i < after.size(); ++i) {
    std::ranges::copy(values[i], after[i].values.begin());
  }
  return {};
}

Status StagedExecutor::bind(std::span<const nn::Binding> bindings) {
  bindings_.assign(bindings.begin(), bindings.end());
  typed_.clear();
  return network_->bind(bindings_);
}

Status StagedExecutor::bind_typed(const nn::TypedBindings& bindings) {
  PHUB_CHECK(bindings.exported == nullptr, "no gradients in exported memory");
  typed_.assign(bindings.keys.begin(), bindings.keys.end());
  type_ = bindings.type;
  bindings_.clear();
  return network_->bind_typed({.type = type_, .keys = typed_});
}

Status StagedExecutor::bind_again() {
  if (!bindings_.empty()) return network_->bind(bindings_);
  if (!typed_.empty()) return network_->bind_typed({.type = type_, .keys = typed_});
  return {};
}

Result<ExportedMemoryPointer> StagedExecutor::export_gradients(std::size_t /*bytes*/) {
  return Status(Code::kFailedPrecondition,
                "data.progressive makes the network anew, and its memory would go with it");
}

}  // namespace phub::train
