#include "worker/cuda/lowering/context.h"

#include <algorithm>
#include <variant>

#include "common/base/check.h"

namespace phub::nn::cuda {
namespace {

std::int64_t round_up(std::int64_t value, std::int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

// Whether the images may have 4 channels: all others write as many, padded, as they read. Only in
// fp16 has cuDNN 9.19 an engine for 4: on an H200 the gradient of ResNet-50's first weights took
// 48 ms in bf16 and 1.3 ms in fp16 (batch 256).
bool reads_four(const LoweringContext& context) {
  if (context.type != ElementType::kFloat16) return false;
  const std::vector<std::size_t>& readers = context.fusion.readers(0);
  return std::all_of(readers.begin(), readers.end(), [&](std::size_t reader) {
    const LayerKind& kind = context.layer(reader).kind;
    return std::holds_alternative<Convolution>(kind) ||
           std::holds_alternative<InnerProduct>(kind) || std::holds_alternative<Concat>(kind) ||
           std::holds_alternative<Subsample>(kind);
  });
}

}  // namespace

LoweringContext::LoweringContext(const Graph& network, const LoweringOptions& chosen)
    : graph(network),
      options(chosen),
      type(element_type(chosen.compute_type)),
      fusion(chosen.fuse ? FusionPlan(network, chosen.compute_type, chosen.unfused)
                         : FusionPlan(network)),
      tensors(network.tensors()),
      norms(network.layers().size()),
      indices(network.layers().size(), kNoBuffer) {}

LayerFusion LoweringContext::fused(std::size_t layer) const {
  if (training) return fusion.of(layer);
  return {.relu_inside = fusion.of(layer).relu_inside};
}

std::int64_t LoweringContext::padded_channels(TensorId tensor) const {
  const std::int64_t channels = graph.shape(tensor).channels;
  return round_up(channels, tensor == 0 && channels <= 4 && reads_four(*this) ? 4 : 8);
}

Dimensions LoweringContext::dimensions(TensorId tensor) const {
  const Shape& shape = graph.shape(tensor);
  return {options.batch, padded_channels(tensor), shape.height, shape.width};
}

BufferId LoweringContext::scratch(std::string name, Dimensions dimensions,
                                  ElementType element_type) {
  return out.add({std::move(name), std::move(dimensions), element_type, BufferRole::kScratch});
}

void LoweringContext::run(std::size_t index, const std::string& what, KernelStep step) {
  steps->push_back({layer(index).name + ' ' + what, index, std::move(step)});
}

void LoweringContext::contribute(TensorId tensor, BufferId gradient) {
  PHUB_CHECK(tensors[tensor].writers_left > 0, "a reader contributes to a gradient once");
  --tensors[tensor].writers_left;
  if (wants_gradient(tensor)) tensors[tensor].contributions.push_back(gradient);
}

BufferId LoweringContext::gradient(std::size_t index, TensorId tensor) {
  std::vector<BufferId>& all = tensors[tensor].contributions;
  while (all.size() > 1) {
    const BufferId sum = scratch(layer(index).name + " gradient sum", tensor);
    GraphWriter writer(*this, index, "adds gradients");
    const OperandId first = writer.use(all[0]);
    const OperandId second = writer.use(all[1]);
    writer.add(PointwiseOp{PointwiseMode::kAdd, first, second, writer.use(sum)});
    writer.finish();
    all.erase(all.begin());
    all.front() = sum;
  }
  return all.empty() ? kNoBuffer : all.front();
}

BufferId LoweringContext::masked_gradient(std::size_t index, TensorId tensor) {
  TensorState& state = tensors[tensor];
  if (state.masked != kNoBuffer) return state.masked;
  const BufferId whole = gradient(index, tensor);
  state.masked = scratch(layer(index).name + " masked gradient", tensor);
  GraphWriter writer(*this, index, "masks the gradient");
  const OperandId first = writer.use(whole);
  const OperandId second = writer.use(state.value);
  writer.add(PointwiseOp{PointwiseMode::kReluBackward, first, second, writer.use(state.masked)});
  writer.finish();
  return state.masked;
}

std::int64_t parts_of(std::int64_t rows) {
  constexpr std::int64_t kRowsMin = 256, kPartsMax = 512;
  return std::clamp<std::int64_t>(rows / kRowsMin, 1, kPartsMax);
}

GraphWriter::GraphWriter(LoweringContext& context, std::size_t layer, const std::string& what)
    : context_(context),
      layer_(layer),
      name_(context.layer(layer).name + ' ' + what),
      graph_(name_) {}

OperandId GraphWriter::use(BufferId buffer) {
  return use(buffer, context_.out.buffer(buffer).dimensions);
}

OperandId GraphWriter::use(BufferId buffer, const Dimensions& dimensions) {
  const auto known = std::find_if(used_.begin(), used_.end(), [&](const auto& pair) {
    return pair.first == buffer && graph_.operand(pair.second).dimensions == dimensions;
  });
  if (known != used_.end()) return known->second;
  const OperandId operand = graph_.device(dimensions, context_.out.buffer(buffer).type);
  buffers_.push_back(buffer);
  used_.emplace_back(buffer, operand);
  return operand;
}

OperandId GraphWriter::pointwise(PointwiseMode mode, OperandId first, OperandId second,
                                 ElementType element_type) {
  const OperandId output = graph_.virtual_like(first, element_type);
  graph_.add(PointwiseOp{mode, first, second, output});
  return output;
}

OperandId GraphWriter::scaled(const BatchNormState& norm) {
  const OperandId x = use(norm.x);
  const OperandId product = pointwise(PointwiseMode::kMultiply, x, use(norm.factor));
  return pointwise(PointwiseMode::kAdd, product, use(norm.offset));
}

void GraphWriter::finish() {
  context_.steps->push_back({name_, layer_, GraphStep{std::move(graph_), std::move(buffers_)}});
}

}  // namespace phub::nn::cuda
