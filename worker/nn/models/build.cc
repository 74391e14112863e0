#include "worker/nn/models/build.h"

namespace phub::nn::models {

TensorId Builder::add(const std::string& name, const LayerKind& kind,
                      std::vector<TensorId> inputs) {
  if (!status_.ok()) return 0;
  const auto added = graph_.try_add(name, kind, std::move(inputs));
  if (added) return *added;
  status_ = added.error().with_context("layer \"" + name + "\"");
  return 0;
}

Result<Graph> Builder::finish() && {
  if (!status_.ok()) return status_;
  return std::move(graph_);
}

TensorId basic_convolution(Builder& net, const std::string& name, TensorId input,
                           const Convolution& convolution) {
  Convolution plain = convolution;
  plain.bias = false;
  const TensorId x = net.add(name + ".conv", plain, input);
  return net.add(name + ".bn", BatchNorm{.relu = true, .epsilon = 1e-3F}, x);
}

}  // namespace phub::nn::models
