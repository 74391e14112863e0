// Add and Relu.
#include <variant>
#include <vector>

#include "worker/cuda/lowering/context.h"

namespace phub::nn::cuda {
namespace {

// An Add's input: stored, or a batch normalisation that is done here.
OperandId addend(LoweringContext& context, GraphWriter& writer, TensorId tensor) {
  const BufferId value = context.tensors[tensor].value;
  if (value != kNoBuffer) return writer.use(value);
  return writer.scaled(context.norms[tensor - 1]);
}

}  // namespace

void lower_add_forward(LoweringContext& context, std::size_t layer) {
  const Layer& own = context.layer(layer);
  TensorState& state = context.tensors[layer + 1];
  state.value = context.scratch(own.name + " output", layer + 1);
  GraphWriter writer(context, layer, "forward");
  const OperandId first = addend(context, writer, own.inputs[0]);
  const OperandId second = addend(context, writer, own.inputs[1]);
  const OperandId y = writer.use(state.value);
  if (std::get<Add>(own.kind).relu) {
    const OperandId sum = writer.pointwise(PointwiseMode::kAdd, first, second);
    writer.add(PointwiseOp{PointwiseMode::kRelu, sum, sum, y});
  } else {
    writer.add(PointwiseOp{PointwiseMode::kAdd, first, second, y});
  }
  writer.finish();
}

void lower_add_backward(LoweringContext& context, std::size_t layer) {
  const Layer& own = context.layer(layer);
  const BufferId gradient = std::get<Add>(own.kind).relu ? context.masked_gradient(layer, layer + 1)
                                                         : context.gradient(layer, layer + 1);
  for (const TensorId input : own.inputs) context.contribute(input, gradient);
}

void lower_relu_forward(LoweringContext& context, std::size_t layer) {
  const Layer& own = context.layer(layer);
  TensorState& state = context.tensors[layer + 1];
  const TensorId input = own.inputs[0];
  if (input > 0 && context.fused(input - 1).relu_inside) return;  // it has been written
  state.value = context.scratch(own.name + " output", layer + 1);
  GraphWriter writer(context, layer, "forward");
  const OperandId x = writer.use(context.tensors[input].value);
  writer.add(PointwiseOp{PointwiseMode::kRelu, x, x, writer.use(state.value)});
  writer.finish();
}

void lower_relu_backward(LoweringContext& context, std::size_t layer) {
  context.contribute(context.layer(layer).inputs[0], context.masked_gradient(layer, layer + 1));
}

}  // namespace phub::nn::cuda
