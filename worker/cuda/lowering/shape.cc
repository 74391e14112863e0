// Concat, Subsample and Dropout: kernels of our own that move or mask what is there.
#include <utility>
#include <variant>

#include "worker/cuda/lowering/context.h"

namespace phub::nn::cuda {
namespace {

void concat(LoweringContext& context, std::size_t layer) {
  const Layer& own = context.layer(layer);
  const BufferId target = context.tensors[layer + 1].value;
  std::int64_t to = 0;
  for (const TensorId input : own.inputs) {
    const std::int64_t channels = context.graph.shape(input).channels;
    const bool last = to + channels == context.graph.shape(layer + 1).channels;
    context.run(layer, "copies",
                {.kernel = Kernel::kCopyChannels,
                 .buffers = {context.tensors[input].value, target},
                 .channels = channels,
                 .to = to,
                 .clear_to = last ? context.padded_channels(layer + 1) : 0});
    to += channels;
  }
}

void concat_backward(LoweringContext& context, std::size_t layer, BufferId gradient) {
  std::int64_t from = 0;
  for (const TensorId input : context.layer(layer).inputs) {
    const std::int64_t channels = context.graph.shape(input).channels;
    const BufferId part = context.scratch(context.layer(layer).name + " data gradient", input);
    context.run(layer, "copies gradients",
                {.kernel = Kernel::kCopyChannels,
                 .buffers = {gradient, part},
                 .channels = channels,
                 .from = from,
                 .clear_to = context.padded_channels(input)});
    context.contribute(input, part);
    from += channels;
  }
}

KernelStep subsample(const LoweringContext& context, std::size_t layer, Kernel kernel) {
  const std::int64_t in = context.graph.shape(context.layer(layer).inputs[0]).channels;
  const std::int64_t out = context.graph.shape(layer + 1).channels;
  return {.kernel = kernel,
          .channels = in,
          .to = (out - in) / 2,
          .stride = std::get<Subsample>(context.layer(layer).kind).stride};
}

KernelStep dropout(const LoweringContext& context, std::size_t layer) {
  return {.kernel = Kernel::kDropout,
          .channels = context.graph.shape(layer + 1).channels,
          .ratio = std::get<Dropout>(context.layer(layer).kind).ratio};
}

}  // namespace

void lower_shape_forward(LoweringContext& context, std::size_t layer) {
  const Layer& own = context.layer(layer);
  TensorState& state = context.tensors[layer + 1];
  const BufferId input = context.tensors[own.inputs[0]].value;
  const bool drops = std::holds_alternative<Dropout>(own.kind);
  if (drops && !context.training) {
    state.value = input;
    return;
  }
  state.value = context.scratch(own.name + " output", layer + 1);
  if (std::holds_alternative<Concat>(own.kind)) return concat(context, layer);
  KernelStep step = drops ? dropout(context, layer) : subsample(context, layer, Kernel::kSubsample);
  step.buffers = {input, state.value};
  context.run(layer, "forward", std::move(step));
}

void lower_shape_backward(LoweringContext& context, std::size_t layer) {
  const Layer& own = context.layer(layer);
  const BufferId gradient = context.gradient(layer, layer + 1);
  if (std::holds_alternative<Concat>(own.kind)) return concat_backward(context, layer, gradient);
  const BufferId result = context.scratch(own.name + " data gradient", own.inputs[0]);
  KernelStep step = std::holds_alternative<Dropout>(own.kind)
                        ? dropout(context, layer)
                        : subsample(context, layer, Kernel::kSubsampleBackward);
  step.buffers = {gradient, result};
  context.run(layer, "backward", std::move(step));
  context.contribute(own.inputs[0], result);
}

}  // namespace phub::nn::cuda
