// Pooling.
#include <algorithm>
#include <cstdint>
#include <variant>

#include "worker/nn/cuda/lowering_context.h"

namespace phub::nn::cuda {
namespace {

struct Pooling {
  PoolMode mode = PoolMode::kMax;
  Window2d window;
};

// How far the last window may reach over the end: further than the padding with Pool::ceil.
std::int64_t pad_after(std::int64_t input, std::int64_t windows, std::int64_t size,
                       std::int64_t stride, std::int64_t padding) {
  return std::max(padding, (windows - 1) * stride + size - padding - input);
}

Pooling pooling_of(const LoweringContext& context, std::size_t layer) {
  const Shape& in = context.graph.shape(context.layer(layer).inputs[0]);
  const Shape& out = context.graph.shape(layer + 1);
  const auto* pool = std::get_if<Pool>(&context.layer(layer).kind);
  if (pool == nullptr) {  // GlobalAveragePool
    return {PoolMode::kAverageWithPadding, {.size = {in.height, in.width}}};
  }
  Pooling result;
  if (pool->kind == PoolKind::kAverage) {
    result.mode =
        pool->count_padding ? PoolMode::kAverageWithPadding : PoolMode::kAverageWithoutPadding;
  }
  const auto& [size, stride, padding] = pool->window;
  result.window = {{size.height, size.width},
                   {stride.height, stride.width},
                   {padding.height, padding.width},
                   {pad_after(in.height, out.height, size.height, stride.height, padding.height),
                    pad_after(in.width, out.width, size.width, stride.width, padding.width)}};
  return result;
}

}  // namespace

void lower_pool_forward(LoweringContext& context, std::size_t layer) {
  const Layer& own = context.layer(layer);
  const auto [mode, window] = pooling_of(context, layer);
  TensorState& state = context.tensors[layer + 1];
  state.value = context.scratch(own.name + " output", layer + 1);
  GraphWriter writer(context, layer, "forward");
  const OperandId x = writer.use(context.tensors[own.inputs[0]].value);
  const OperandId y = writer.use(state.value);
  OperandId index = x;
  if (mode == PoolMode::kMax && context.training) {
    context.indices[layer] =
        context.scratch(own.name + " index", context.dimensions(layer + 1), ElementType::kInt8);
    index = writer.use(context.indices[layer]);
  }
  writer.add(PoolForwardOp{mode, x, y, index, window});
  writer.finish();
}

void lower_pool_backward(LoweringContext& context, std::size_t layer) {
  const Layer& own = context.layer(layer);
  const TensorId input = own.inputs[0];
  const auto [mode, window] = pooling_of(context, layer);
  const BufferId gradient = context.gradient(layer, layer + 1);
  const BufferId result = context.scratch(own.name + " data gradient", input);
  GraphWriter writer(context, layer, "backward");
  const OperandId dy = writer.use(gradient);
  const OperandId dx = writer.use(result);
  const OperandId index = mode == PoolMode::kMax ? writer.use(context.indices[layer]) : dy;
  writer.add(PoolBackwardOp{mode, dy, dx, index, window});
  writer.finish();
  context.contribute(input, result);
}

}  // namespace phub::nn::cuda
