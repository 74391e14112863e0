#include "worker/cuda/lowering/data_gradient.h"

#include <string>
#include <variant>
#include <vector>

namespace phub::nn::cuda {
namespace {

// The normalisations whose sums `layer` can make where it writes the gradient by its input: that of
// the input itself, or those that the Add which wrote it does.
std::vector<std::size_t> norms_behind(const LoweringContext& context, std::size_t layer) {
  const TensorId tensor = context.layer(layer).inputs[0];
  if (tensor == 0 || !context.fusion.data_gradient_sums(layer)) return {};
  const std::size_t producer = tensor - 1;
  const Layer& source = context.layer(producer);
  if (const auto* norm = std::get_if<BatchNorm>(&source.kind)) {
    if (norm->relu && context.fused(producer).from_statistics) return {producer};
  }
  if (!std::holds_alternative<Add>(source.kind) ||
      !context.fusion.data_gradient_sums_behind_add(layer)) {
    return {};
  }
  std::vector<std::size_t> found;
  for (const TensorId input : source.inputs) {
    if (input > 0 && context.fused(input - 1).in_add) found.push_back(input - 1);
  }
  return found;
}

// Whether a ReLU was the last that happened to the tensor.
bool ends_with_relu(const LoweringContext& context, TensorId tensor) {
  if (tensor == 0) return false;
  const LayerKind& kind = context.layer(tensor - 1).kind;
  const auto* norm = std::get_if<BatchNorm>(&kind);
  const auto* add = std::get_if<Add>(&kind);
  return std::holds_alternative<Relu>(kind) || (norm != nullptr && norm->relu) ||
         (add != nullptr && add->relu);
}

// The normalisation again, as forward did it but in fp32 (what cuDNN's pattern wants).
OperandId recomputed(GraphWriter& writer, const BatchNormState& norm) {
  const OperandId x = writer.use(norm.x);
  const OperandId centred = writer.pointwise(PointwiseMode::kSubtract, x, writer.use(norm.mean));
  const OperandId normal =
      writer.pointwise(PointwiseMode::kMultiply, centred, writer.use(norm.inverse_deviation));
  const OperandId scaled =
      writer.pointwise(PointwiseMode::kMultiply, normal, writer.use(norm.scale));
  return writer.pointwise(PointwiseMode::kAdd, scaled, writer.use(norm.bias));
}

// What the ReLU saw: one normalisation, or the sum of it and another or a stored tensor.
OperandId before_relu(const LoweringContext& context, GraphWriter& writer, TensorId tensor,
                      const std::vector<std::size_t>& norms) {
  const OperandId first = recomputed(writer, context.norms[norms[0]]);
  if (norms.size() == 2) {
    return writer.pointwise(PointwiseMode::kAdd, first,
                            recomputed(writer, context.norms[norms[1]]));
  }
  if (norms[0] == tensor - 1) return first;
  const std::vector<TensorId>& inputs = context.layer(tensor - 1).inputs;
  const TensorId shortcut = inputs[0] == norms[0] + 1 ? inputs[1] : inputs[0];
  return writer.pointwise(PointwiseMode::kAdd, first, writer.use(context.tensors[shortcut].value));
}

void write_sums(LoweringContext& context, GraphWriter& writer, std::size_t layer, OperandId dy) {
  BatchNormState& norm = context.norms[layer];
  const std::string& name = context.layer(layer).name;
  norm.dy_factor = context.per_channel(name + " dy factor", layer + 1);
  norm.x_factor = context.per_channel(name + " x factor", layer + 1);
  norm.constant = context.per_channel(name + " constant", layer + 1);
  BatchNormBackwardWeightsOp op;
  op.dy = dy;
  op.x = writer.use(norm.x);
  op.scale = writer.use(norm.scale);
  op.mean = writer.use(norm.mean);
  op.inverse_deviation = writer.use(norm.inverse_deviation);
  op.dscale = writer.use(context.parameter(layer, 0).gradient);
  op.dbias = writer.use(context.parameter(layer, 1).gradient);
  op.dy_factor = writer.use(norm.dy_factor);
  op.x_factor = writer.use(norm.x_factor);
  op.constant = writer.use(norm.constant);
  writer.add(op);
}

}  // namespace

void lower_data_gradient(LoweringContext& context, std::size_t layer, BufferId dy) {
  const TensorId tensor = context.layer(layer).inputs[0];
  TensorState& state = context.tensors[tensor];
  const ConvolutionShape shape = shape_of(context, layer);
  const bool more = context.fusion.data_gradient_takes_more(layer);
  const BufferId others = more ? context.gradient(layer, tensor) : kNoBuffer;
  const bool mask = more && state.writers_left == 1 && ends_with_relu(context, tensor);
  std::vector<std::size_t> norms;
  if (mask) norms = norms_behind(context, layer);

  GraphWriter writer(context, layer, "data gradient");
  const BufferId result = context.scratch(context.layer(layer).name + " data gradient", tensor);
  const OperandId output = writer.use(dy);
  const OperandId weights = writer.use(context.parameter(layer, 0).value, shape.weights);
  const OperandId target = writer.use(result, shape.image);
  const bool epilogue = mask || others != kNoBuffer;
  OperandId gradient = epilogue ? writer.virtual_like(target, ElementType::kFloat32) : target;
  writer.add(ConvolutionOp{ConvolutionOp::Direction::kBackwardData, gradient, weights, output,
                           shape.window});
  if (others != kNoBuffer) {
    const OperandId sum = mask ? writer.virtual_like(target, ElementType::kFloat32) : target;
    writer.add(PointwiseOp{PointwiseMode::kAdd, gradient, writer.use(others, shape.image), sum});
    gradient = sum;
  }
  if (mask) {
    const OperandId seen = norms.empty() ? writer.use(state.value, shape.image)
                                         : before_relu(context, writer, tensor, norms);
    writer.add(PointwiseOp{PointwiseMode::kReluBackward, gradient, seen, target});
    state.masked = result;
  }
  for (const std::size_t norm : norms) {
    write_sums(context, writer, norm, target);
    context.norms[norm].dy = result;
  }
  writer.finish();
  if (others != kNoBuffer) state.contributions.clear();  // they are in the result
  context.contribute(tensor, result);
}

}  // namespace phub::nn::cuda
