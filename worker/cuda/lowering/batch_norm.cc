// Batch normalisation: one operation of cuDNN, or finished from the sums that a convolution made.
#include <string>
#include <variant>

#include "worker/cuda/lowering/context.h"

namespace phub::nn::cuda {
namespace {

void name_parameters(LoweringContext& context, std::size_t layer, BatchNormState& norm) {
  norm.x = context.tensors[context.layer(layer).inputs[0]].value;
  norm.scale = context.parameter(layer, 0).value;
  norm.bias = context.parameter(layer, 1).value;
}

// Of the batch.
void name_statistics(LoweringContext& context, std::size_t layer, BatchNormState& norm) {
  const std::string& name = context.layer(layer).name;
  norm.mean = context.per_channel(name + " mean", layer + 1);
  norm.inverse_deviation = context.per_channel(name + " inverse deviation", layer + 1);
}

// value = relu(factor * x + offset), stored.
void write_scaled(LoweringContext& context, std::size_t layer, const BatchNormState& norm) {
  const bool relu = std::get<BatchNorm>(context.layer(layer).kind).relu;
  TensorState& state = context.tensors[layer + 1];
  state.value = context.scratch(context.layer(layer).name + " output", layer + 1);
  GraphWriter writer(context, layer, "scale and offset");
  if (relu) {
    const OperandId sum = writer.scaled(norm);
    writer.add(PointwiseOp{PointwiseMode::kRelu, sum, sum, writer.use(state.value)});
  } else {
    const OperandId x = writer.use(norm.x);
    const OperandId product =
        writer.pointwise(PointwiseMode::kMultiply, x, writer.use(norm.factor));
    const OperandId offset = writer.use(norm.offset);
    writer.add(PointwiseOp{PointwiseMode::kAdd, product, offset, writer.use(state.value)});
  }
  writer.finish();
}

void lower_inference(LoweringContext& context, std::size_t layer) {
  const std::string& name = context.layer(layer).name;
  BatchNormState norm = context.norms[layer];  // where the running statistics are
  name_parameters(context, layer, norm);
  norm.factor = context.per_channel(name + " factor", layer + 1);
  norm.offset = context.per_channel(name + " offset", layer + 1);
  context.run(layer, "factors",
              {.kernel = Kernel::kInferenceFactors,
               .buffers = {norm.scale, norm.bias, norm.running_mean, norm.running_variance,
                           norm.factor, norm.offset},
               .epsilon = std::get<BatchNorm>(context.layer(layer).kind).epsilon});
  write_scaled(context, layer, norm);
}

void lower_from_statistics(LoweringContext& context, std::size_t layer) {
  const auto& kind = std::get<BatchNorm>(context.layer(layer).kind);
  const std::string& name = context.layer(layer).name;
  BatchNormState& norm = context.norms[layer];
  name_parameters(context, layer, norm);
  name_statistics(context, layer, norm);
  norm.factor = context.per_channel(name + " factor", layer + 1);
  norm.offset = context.per_channel(name + " offset", layer + 1);
  const Dimensions vector = context.out.buffer(norm.factor).dimensions;
  norm.factor16 = context.scratch(name + " factor, 16 bits", vector, context.type);
  norm.offset16 = context.scratch(name + " offset, 16 bits", vector, context.type);
  const Shape& shape = context.graph.shape(layer + 1);
  context.run(layer, "finalizes statistics",
              {.kernel = Kernel::kFinalizeStatistics,
               .buffers = {norm.sum, norm.sum_of_squares, norm.scale, norm.bias, norm.running_mean,
                           norm.running_variance, norm.mean, norm.inverse_deviation, norm.factor,
                           norm.offset, norm.factor16, norm.offset16},
               .epsilon = kind.epsilon,
               .momentum = kind.momentum,
               .count = std::int64_t{context.options.batch} * shape.height * shape.width});
  const LayerFusion fused = context.fused(layer);
  if (!fused.is_virtual && !fused.in_add && !fused.in_pool) write_scaled(context, layer, norm);
}

void lower_operation(LoweringContext& context, std::size_t layer) {
  const auto& kind = std::get<BatchNorm>(context.layer(layer).kind);
  const std::string& name = context.layer(layer).name;
  BatchNormState& norm = context.norms[layer];
  name_parameters(context, layer, norm);
  name_statistics(context, layer, norm);
  const BufferId next_mean = context.per_channel(name + " next running mean", layer + 1);
  const BufferId next_variance = context.per_channel(name + " next running variance", layer + 1);
  TensorState& state = context.tensors[layer + 1];
  state.value = context.scratch(name + " output", layer + 1);

  GraphWriter writer(context, layer, "forward");
  BatchNormForwardOp op;
  op.x = writer.use(norm.x);
  op.scale = writer.use(norm.scale);
  op.bias = writer.use(norm.bias);
  op.epsilon = writer.constant(kind.epsilon);
  op.momentum = writer.constant(kind.momentum);
  op.running_mean = writer.use(norm.running_mean);
  op.running_variance = writer.use(norm.running_variance);
  const OperandId y = writer.use(state.value);
  op.y = kind.relu ? writer.virtual_like(y, ElementType::kFloat32) : y;
  op.mean = writer.use(norm.mean);
  op.inverse_deviation = writer.use(norm.inverse_deviation);
  op.next_running_mean = writer.use(next_mean);
  op.next_running_variance = writer.use(next_variance);
  writer.add(op);
  if (kind.relu) writer.add(PointwiseOp{PointwiseMode::kRelu, op.y, op.y, y});
  writer.finish();
  // cuDNN does not say that it may write where it reads.
  context.run(layer, "keeps running statistics",
              {.kernel = Kernel::kKeepStatistics,
               .buffers = {next_mean, next_variance, norm.running_mean, norm.running_variance}});
}

}  // namespace

void lower_batch_norm_forward(LoweringContext& context, std::size_t layer) {
  if (!context.training) return lower_inference(context, layer);
  if (context.fused(layer).from_statistics) return lower_from_statistics(context, layer);
  lower_operation(context, layer);
}

void lower_batch_norm_backward(LoweringContext& context, std::size_t layer) {
  if (context.fused(layer).in_pool) return lower_pooled_norm_backward(context, layer);
  const Layer& own = context.layer(layer);
  const BatchNormState& norm = context.norms[layer];
  const TensorId input = own.inputs[0];
  if (norm.dy != kNoBuffer) {
    const BufferId dx = context.scratch(own.name + " data gradient", input);
    context.run(layer, "backward",
                {.kernel = Kernel::kApplyBatchNormBackward,
                 .buffers = {norm.dy, norm.x, norm.dy_factor, norm.x_factor, norm.constant, dx}});
    return context.contribute(input, dx);
  }
  const BufferId dy = std::get<BatchNorm>(own.kind).relu ? context.masked_gradient(layer, layer + 1)
                                                         : context.gradient(layer, layer + 1);
  const BufferId dx = context.scratch(own.name + " data gradient", input);
  GraphWriter writer(context, layer, "backward");
  BatchNormBackwardOp op;
  op.dy = writer.use(dy);
  op.x = writer.use(norm.x);
  op.scale = writer.use(norm.scale);
  op.mean = writer.use(norm.mean);
  op.inverse_deviation = writer.use(norm.inverse_deviation);
  op.dx = writer.use(dx);
  op.dscale = writer.use(context.parameter(layer, 0).gradient);
  op.dbias = writer.use(context.parameter(layer, 1).gradient);
  writer.add(op);
  writer.finish();
  context.contribute(input, dx);
}

}  // namespace phub::nn::cuda
