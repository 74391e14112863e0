#include "worker/cuda/lowering/lowering.h"

#include <string>
#include <utility>
#include <variant>

#include "worker/cuda/lowering/context.h"

namespace phub::nn::cuda {
namespace {

Status check(const Graph& graph, const LoweringOptions& options) {
  if (options.batch == 0) {
    return {Code::kInvalidArgument, "train.batch is 0: give at least one image for a step"};
  }
  if (options.compute_type == DataType::kFloat32) {
    return {Code::kInvalidArgument, "compute type fp32 is not offered on GPUs: use fp16 or bf16"};
  }
  std::vector<std::size_t> readers(graph.tensors(), 0);
  for (const Layer& layer : graph.layers()) {
    for (const TensorId input : layer.inputs) ++readers[input];
    const auto* convolution = std::get_if<Convolution>(&layer.kind);
    if (convolution == nullptr || convolution->groups == 1) continue;
    const std::uint32_t channels = graph.shape(layer.inputs[0]).channels;
    if (channels % 8 != 0 || convolution->channels % 8 != 0) {
      return {Code::kInvalidArgument, "layer " + layer.name +
                                          ": a grouped convolution on a GPU has multiples of 8 "
                                          "channels; it has " +
                                          std::to_string(channels) + " and " +
                                          std::to_string(convolution->channels)};
    }
  }
  for (TensorId tensor = 0; tensor + 1 < graph.tensors(); ++tensor) {
    if (readers[tensor] > 0) continue;
    const std::string name = tensor == 0 ? "the input" : "layer " + graph.layers()[tensor - 1].name;
    return {Code::kInvalidArgument, name + " is read by no layer: remove it or use it"};
  }
  return {};
}

// Vectors are [1, K', 1, 1], weights [K', C', R, S].
void add_parameter(LoweringContext& context, std::size_t layer, const ParameterSpec& spec) {
  const Layer& own = context.layer(layer);
  ParameterLayout layout{.name = spec.name, .k = static_cast<std::int64_t>(spec.shape[0])};
  layout.padded_k = context.padded_channels(layer + 1);
  const bool vector = spec.shape.size() == 1;
  const bool norm = std::holds_alternative<BatchNorm>(own.kind);
  Dimensions dimensions = {1, layout.padded_k, 1, 1};
  if (!vector) {
    const auto* convolution = std::get_if<Convolution>(&own.kind);
    const TensorId input = own.inputs[0];
    const Shape& shape = context.graph.shape(input);
    const std::int64_t groups = convolution != nullptr ? convolution->groups : 1;
    layout.c = shape.channels / groups;
    layout.padded_c = context.padded_channels(input) / groups;
    dimensions = {layout.padded_k, layout.padded_c, shape.height, shape.width};
    if (convolution != nullptr) {
      dimensions[2] = convolution->window.kernel.height;
      dimensions[3] = convolution->window.kernel.width;
    }
    layout.pixels = dimensions[2] * dimensions[3];
  }
  layout.value = context.out.add(
      {spec.name, dimensions, norm ? ElementType::kFloat32 : context.type, BufferRole::kValue});
  layout.gradient =
      context.out.add({spec.name + " gradient", dimensions,
                       vector ? ElementType::kFloat32 : context.type, BufferRole::kGradient});
  context.out.parameters.push_back(std::move(layout));
}

void add_state(LoweringContext& context, std::size_t layer) {
  const std::string& name = context.layer(layer).name;
  const std::int64_t channels = context.graph.shape(layer + 1).channels;
  const Dimensions dimensions = {1, context.padded_channels(layer + 1), 1, 1};
  const auto add = [&](const std::string& what, float initial) {
    const BufferId buffer =
        context.out.add({name + what, dimensions, ElementType::kFloat32, BufferRole::kState});
    context.out.states.push_back({name + what, buffer, channels, initial});
    return buffer;
  };
  context.norms[layer].running_mean = add(".running_mean", 0.0F);
  context.norms[layer].running_variance = add(".running_var", 1.0F);
}

struct Forward {
  LoweringContext& context;
  std::size_t layer;
  void operator()(const Convolution&) const { lower_convolution_forward(context, layer); }
  void operator()(const InnerProduct&) const { lower_convolution_forward(context, layer); }
  void operator()(const Pool&) const { lower_pool_forward(context, layer); }
  void operator()(const GlobalAveragePool&) const { lower_pool_forward(context, layer); }
  void operator()(const Relu&) const { lower_relu_forward(context, layer); }
  void operator()(const BatchNorm&) const { lower_batch_norm_forward(context, layer); }
  void operator()(const Add&) const { lower_add_forward(context, layer); }
  void operator()(const Concat&) const { lower_shape_forward(context, layer); }
  void operator()(const Dropout&) const { lower_shape_forward(context, layer); }
  void operator()(const Subsample&) const { lower_shape_forward(context, layer); }
};

struct Backward {
  LoweringContext& context;
  std::size_t layer;
  void operator()(const Convolution&) const { lower_convolution_backward(context, layer); }
  void operator()(const InnerProduct&) const { lower_convolution_backward(context, layer); }
  void operator()(const Pool&) const { lower_pool_backward(context, layer); }
  void operator()(const GlobalAveragePool&) const { lower_pool_backward(context, layer); }
  void operator()(const Relu&) const { lower_relu_backward(context, layer); }
  void operator()(const BatchNorm&) const { lower_batch_norm_backward(context, layer); }
  void operator()(const Add&) const { lower_add_backward(context, layer); }
  void operator()(const Concat&) const { lower_shape_backward(context, layer); }
  void operator()(const Dropout&) const { lower_shape_backward(context, layer); }
  void operator()(const Subsample&) const { lower_shape_backward(context, layer); }
};

// One pass over the layers; returns the network's output.
BufferId forward(LoweringContext& context, std::vector<Step>& steps, bool training) {
  context.steps = &steps;
  context.training = training;
  for (TensorState& tensor : context.tensors) tensor = {};
  context.tensors.front().value = context.out.input;
  for (std::size_t layer = 0; layer < context.graph.layers().size(); ++layer) {
    std::visit(Forward{context, layer}, context.layer(layer).kind);
  }
  return context.tensors.back().value;
}

}  // namespace

Result<Lowered> lower(const Graph& graph, const LoweringOptions& options) {
  PHUB_RETURN_IF_ERROR(check(graph, options));
  LoweringContext context(graph, options);
  Lowered& out = context.out;
  for (std::size_t layer = 0; layer < graph.layers().size(); ++layer) {
    out.layers.push_back(graph.layers()[layer].name);
    context.first_parameter.push_back(out.parameters.size());
    for (const ParameterSpec& spec : graph.layers()[layer].parameters) {
      add_parameter(context, layer, spec);
    }
    if (std::holds_alternative<BatchNorm>(graph.layers()[layer].kind)) add_state(context, layer);
  }
  out.input = out.add({"input", context.dimensions(0), context.type, BufferRole::kInput});
  out.inference_output = forward(context, out.inference, false);
  out.output = forward(context, out.forward, true);

  context.steps = &out.backward;
  for (TensorId tensor = 0; tensor < graph.tensors(); ++tensor) {
    context.tensors[tensor].writers_left = context.fusion.readers(tensor).size();
  }
  const TensorId last = graph.tensors() - 1;
  out.output_gradient = context.scratch("gradient of the output", last);
  context.tensors[last].contributions = {out.output_gradient};
  for (std::size_t layer = graph.layers().size(); layer-- > 0;) {
    std::visit(Backward{context, layer}, context.layer(layer).kind);
  }
  if (options.input_gradient) out.input_gradient = context.gradient(0, 0);
  return std::move(out);
}

}  // namespace phub::nn::cuda
