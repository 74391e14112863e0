// Pooling: cuDNN's, or with the batch normalisation before it by kernels of our own.
#include <algorithm>
#include <cstdint>
#include <string>
#include <variant>

#include "worker/cuda/lowering/context.h"

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

// Whether the layer is done together with the normalisation that it reads.
bool does_norm(const LoweringContext& context, std::size_t layer) {
  const TensorId input = context.layer(layer).inputs[0];
  return input > 0 && context.fused(input - 1).in_pool;
}

BufferId add_index(LoweringContext& context, std::size_t layer) {
  context.indices[layer] = context.scratch(context.layer(layer).name + " index",
                                           context.dimensions(layer + 1), ElementType::kInt8);
  return context.indices[layer];
}

void lower_norm_and_pool(LoweringContext& context, std::size_t layer) {
  const std::string& name = context.layer(layer).name;
  BatchNormState& norm = context.norms[context.layer(layer).inputs[0] - 1];
  norm.taken = context.scratch(name + " inputs taken", layer + 1);
  const BufferId index = add_index(context, layer);
  const BufferId value = context.scratch(name + " output", layer + 1);
  context.tensors[layer + 1].value = value;
  context.run(layer, "of the scaled input",
              {.kernel = Kernel::kScaledPool,
               .buffers = {norm.x, norm.factor, norm.offset, index, norm.taken, value},
               .window = pooling_of(context, layer).window});
}

}  // namespace

void lower_pool_forward(LoweringContext& context, std::size_t layer) {
  if (does_norm(context, layer)) return lower_norm_and_pool(context, layer);
  const Layer& own = context.layer(layer);
  const auto [mode, window] = pooling_of(context, layer);
  TensorState& state = context.tensors[layer + 1];
  state.value = context.scratch(own.name + " output", layer + 1);
  GraphWriter writer(context, layer, "forward");
  const OperandId x = writer.use(context.tensors[own.inputs[0]].value);
  const OperandId y = writer.use(state.value);
  OperandId index = x;
  if (mode == PoolMode::kMax && context.training) {
    index = writer.use(add_index(context, layer));
  }
  writer.add(PoolForwardOp{mode, x, y, index, window});
  writer.finish();
}

void lower_pool_backward(LoweringContext& context, std::size_t layer) {
  if (does_norm(context, layer)) return;  // the normalisation's backward does it
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

void lower_pooled_norm_backward(LoweringContext& context, std::size_t batch_norm) {
  const Layer& own = context.layer(batch_norm);
  const std::size_t pool = context.fusion.readers(batch_norm + 1).front();
  const BatchNormState& norm = context.norms[batch_norm];
  const BufferId dy = context.gradient(pool, pool + 1);
  const BufferId index = context.indices[pool];
  const Dimensions large = context.dimensions(own.inputs[0]);
  const Dimensions small = context.dimensions(pool + 1);
  const auto vector = [&](const char* what) {
    return context.per_channel(own.name + what, batch_norm + 1);
  };
  const BufferId dy_factor = vector(" dy factor"), x_factor = vector(" x factor"),
                 constant = vector(" constant");
  const std::int64_t parts = parts_of(small[0] * small[2] * small[3]);
  const BufferId part_sums = context.scratch(own.name + " sums, parts", {2 * parts, small[1], 1, 1},
                                             ElementType::kFloat32);
  context.run(
      batch_norm, "sums of backward",
      {.kernel = Kernel::kScaledPoolSums,
       .buffers = {dy, norm.taken, index, norm.scale, norm.mean, norm.inverse_deviation, part_sums,
                   context.parameter(batch_norm, 0).gradient,
                   context.parameter(batch_norm, 1).gradient, dy_factor, x_factor, constant},
       .count = large[0] * large[2] * large[3]});
  const BufferId dx = context.scratch(own.name + " data gradient", own.inputs[0]);
  context.run(batch_norm, "backward",
              {.kernel = Kernel::kScaledPoolBackward,
               .buffers = {dy, norm.x, index, dy_factor, x_factor, constant, dx},
               .window = pooling_of(context, pool).window});
  context.contribute(own.inputs[0], dx);
}

}  // namespace phub::nn::cuda
