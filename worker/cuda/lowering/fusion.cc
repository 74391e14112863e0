#include "worker/cuda/lowering/fusion.h"

#include <algorithm>
#include <variant>

namespace phub::nn::cuda {
namespace {

// On an H200 the convolution of ResNet-50's images takes 4.4 ms with sums in its graph (batch 256):
// of cuDNN 9.19's engines one takes it, which is compiled for whatever comes.
constexpr std::uint32_t kImageChannelsMax = 4;

bool strided_1x1(const Window& window) {
  return window.kernel == Extent(1) && !(window.stride == Extent(1));
}

// Whether kernels of our own pool so: an index of 8 bits names a place in the window, numbers of 32
// bits an element of an image, of 8 padded channels at least, and a stride.
bool pools_maxima(const Pool& pool, const Shape& in, const Shape& out) {
  constexpr std::uint64_t kTapsMax = 127;
  const Extent& window = pool.window.kernel;
  const auto counts = [](std::uint64_t number) { return number <= INT32_MAX; };
  const auto fits = [&](const Shape& shape) {
    return counts((std::uint64_t{shape.channels} + 7) / 8 * 8 * shape.height * shape.width);
  };
  return pool.kind == PoolKind::kMax && std::uint64_t{window.height} * window.width <= kTapsMax &&
         fits(in) && fits(out) && counts(pool.window.stride.height) &&
         counts(pool.window.stride.width);
}

}  // namespace

FusionPlan::FusionPlan(const Graph& graph)
    : graph_(graph), layers_(graph.layers().size()), readers_(graph.tensors()) {
  for (std::size_t layer = 0; layer < graph.layers().size(); ++layer) {
    for (const TensorId input : graph.layers()[layer].inputs) readers_[input].push_back(layer);
  }
}

FusionPlan::FusionPlan(const Graph& graph, DataType compute_type,
                       std::span<const FusionBlock> unfused)
    : FusionPlan(graph) {
  enabled_ = true;
  unfused_.assign(unfused.begin(), unfused.end());
  std::sort(unfused_.begin(), unfused_.end());
  sums_backward_ = compute_type == DataType::kFloat16;
  for (std::size_t layer = 0; layer < layers_.size(); ++layer) fuse_statistics(layer);
  for (std::size_t layer = 0; layer < layers_.size(); ++layer) fuse_batch_norm(layer);
}

std::vector<FusionBlock> FusionPlan::blocks() const {
  std::vector<FusionBlock> all;
  for (std::size_t layer = 0; layer < layers_.size(); ++layer) {
    const LayerFusion& fusion = layers_[layer];
    const LayerKind& kind = graph_.layers()[layer].kind;
    const bool is_product =
        std::holds_alternative<Convolution>(kind) || std::holds_alternative<InnerProduct>(kind);
    if (fusion.relu_inside) all.push_back({FusionKind::kRelu, layer});
    if (fusion.is_virtual) all.push_back({FusionKind::kPrologue, layer});
    if (fusion.in_add) all.push_back({FusionKind::kAddend, layer});
    if (fusion.in_pool) all.push_back({FusionKind::kPool, layer});
    if (fusion.statistics) all.push_back({FusionKind::kStatistics, layer});
    if (fusion.from_statistics) all.push_back({FusionKind::kSums, layer});
    if (!is_product) continue;
    if (data_gradient_takes_more(layer)) all.push_back({FusionKind::kMask, layer});
    if (data_gradient_sums(layer)) all.push_back({FusionKind::kBackwardSums, layer});
  }
  std::sort(all.begin(), all.end());
  return all;
}

bool FusionPlan::is_allowed(FusionKind kind, std::size_t layer) const {
  return !std::binary_search(unfused_.begin(), unfused_.end(), FusionBlock{kind, layer});
}

const Layer* FusionPlan::only_reader(TensorId tensor) const {
  if (readers_[tensor].size() != 1) return nullptr;
  return &graph_.layers()[readers_[tensor].front()];
}

bool FusionPlan::data_gradient_takes_more(std::size_t layer) const {
  if (!enabled_ || !is_allowed(FusionKind::kMask, layer)) return false;
  const auto* convolution = std::get_if<Convolution>(&graph_.layers()[layer].kind);
  if (convolution == nullptr) return true;  // an InnerProduct
  return convolution->groups == 1 && !strided_1x1(convolution->window);
}

bool FusionPlan::data_gradient_sums(std::size_t layer) const {
  return sums_backward_ && is_allowed(FusionKind::kBackwardSums, layer) &&
         data_gradient_takes_more(layer) &&
         std::holds_alternative<Convolution>(graph_.layers()[layer].kind);
}

bool FusionPlan::data_gradient_sums_behind_add(std::size_t layer) const {
  return data_gradient_sums(layer) &&
         std::get<Convolution>(graph_.layers()[layer].kind).window.stride == Extent(1);
}

void FusionPlan::fuse_statistics(std::size_t layer) {
  const Layer* reader = only_reader(layer + 1);
  if (reader == nullptr) return;
  const Layer& own = graph_.layers()[layer];
  const auto* convolution = std::get_if<Convolution>(&own.kind);
  if (std::holds_alternative<Relu>(reader->kind) &&
      (convolution != nullptr || std::holds_alternative<InnerProduct>(own.kind))) {
    layers_[layer].relu_inside =
        own.parameters.size() == 2 && is_allowed(FusionKind::kRelu, layer);  // with a bias
  }
  if (convolution == nullptr || convolution->bias) return;
  const std::size_t norm = readers_[layer + 1].front();
  if (!std::holds_alternative<BatchNorm>(reader->kind)) return;
  if (!is_allowed(FusionKind::kSums, norm)) return;
  const bool in_graph = graph_.shape(own.inputs[0]).channels > kImageChannelsMax &&
                        is_allowed(FusionKind::kStatistics, layer);
  (in_graph ? layers_[layer].statistics : layers_[layer].statistics_apart) = true;
  layers_[norm].from_statistics = true;
}

void FusionPlan::fuse_batch_norm(std::size_t layer) {
  LayerFusion& fusion = layers_[layer];
  const Layer* reader = only_reader(layer + 1);
  if (!fusion.from_statistics || reader == nullptr) return;
  const bool relu = std::get<BatchNorm>(graph_.layers()[layer].kind).relu;
  if (const auto* add = std::get_if<Add>(&reader->kind)) {
    fusion.in_add = !relu && add->relu && reader->inputs[0] != reader->inputs[1] &&
                    is_allowed(FusionKind::kAddend, layer);
  }
  if (const auto* pool = std::get_if<Pool>(&reader->kind)) {
    fusion.in_pool = relu &&
                     pools_maxima(*pool, graph_.shape(layer + 1),
                                  graph_.shape(readers_[layer + 1].front() + 1)) &&
                     is_allowed(FusionKind::kPool, layer);
  }
  const std::size_t next = readers_[layer + 1].front();
  fusion.is_virtual = relu && layers_[next].statistics && data_gradient_sums(next) &&
                      is_allowed(FusionKind::kPrologue, layer);
}

}  // namespace phub::nn::cuda
