// Convolutions, and inner products as convolutions of one pixel.
#include <variant>

#include "common/base/check.h"
#include "worker/cuda/lowering/context.h"
#include "worker/cuda/lowering/data_gradient.h"

namespace phub::nn::cuda {
namespace {

Pair pair_of(const Extent& extent) { return {extent.height, extent.width}; }

// The layer's input as the convolution reads it: stored, or made of what batch normalisation got.
OperandId image_operand(const LoweringContext& context, GraphWriter& writer, TensorId tensor,
                        const Dimensions& dimensions) {
  const TensorState& state = context.tensors[tensor];
  if (state.value != kNoBuffer) return writer.use(state.value, dimensions);
  const BatchNormState& norm = context.norms[tensor - 1];
  // The kernels that take such a prologue want its vectors and steps in the compute type.
  const OperandId x = writer.use(norm.x);
  const OperandId product =
      writer.pointwise(PointwiseMode::kMultiply, x, writer.use(norm.factor16), context.type);
  const OperandId sum =
      writer.pointwise(PointwiseMode::kAdd, product, writer.use(norm.offset16), context.type);
  return writer.pointwise(PointwiseMode::kRelu, sum, sum, context.type);
}

// Where the normalisation behind the layer finds the sums.
BatchNormState& add_sums(LoweringContext& context, std::size_t layer) {
  const std::string& name = context.layer(layer).name;
  BatchNormState& norm = context.norms[context.fusion.readers(layer + 1).front()];
  norm.sum = context.per_channel(name + " sum", layer + 1);
  norm.sum_of_squares = context.per_channel(name + " sum of squares", layer + 1);
  return norm;
}

void write_statistics(LoweringContext& context, GraphWriter& writer, std::size_t layer,
                      OperandId output) {
  const BatchNormState& norm = add_sums(context, layer);
  const OperandId sum = writer.use(norm.sum);
  writer.add(GenerateStatisticsOp{output, sum, writer.use(norm.sum_of_squares)});
}

// Sums over all rows of `values`, [rows][channels], in parts: `arrays` for each part.
BufferId add_parts(LoweringContext& context, const std::string& name, const Dimensions& values,
                   std::int64_t arrays) {
  const std::int64_t parts = parts_of(values[0] * values[2] * values[3]);
  return context.scratch(name + ", parts", {arrays * parts, values[1], 1, 1},
                         ElementType::kFloat32);
}

}  // namespace

ConvolutionShape shape_of(const LoweringContext& context, std::size_t layer) {
  const TensorId input = context.layer(layer).inputs[0];
  ConvolutionShape shape{context.dimensions(input),
                         context.out.buffer(context.parameter(layer, 0).value).dimensions,
                         context.dimensions(layer + 1),
                         {}};
  if (const auto* convolution = std::get_if<Convolution>(&context.layer(layer).kind)) {
    const Window& window = convolution->window;
    shape.window = {pair_of(window.kernel), pair_of(window.stride), pair_of(window.padding),
                    pair_of(window.padding)};
    return shape;
  }
  for (Dimensions* dimensions : {&shape.image, &shape.weights}) {
    *dimensions = {(*dimensions)[0], (*dimensions)[1] * (*dimensions)[2] * (*dimensions)[3], 1, 1};
  }
  return shape;
}

void lower_convolution_forward(LoweringContext& context, std::size_t layer) {
  const Layer& own = context.layer(layer);
  const ConvolutionShape shape = shape_of(context, layer);
  const LayerFusion fused = context.fused(layer);
  const bool bias = own.parameters.size() == 2;
  // A ReLU that is done here: this layer's own output is never stored.
  const TensorId output =
      fused.relu_inside ? context.fusion.readers(layer + 1).front() + 1 : layer + 1;
  context.tensors[output].value = context.scratch(own.name + " output", output);

  GraphWriter writer(context, layer, "forward");
  const OperandId image = image_operand(context, writer, own.inputs[0], shape.image);
  const OperandId weights = writer.use(context.parameter(layer, 0).value, shape.weights);
  const OperandId y = writer.use(context.tensors[output].value);
  const OperandId product = bias ? writer.virtual_like(y, ElementType::kFloat32) : y;
  writer.add(
      ConvolutionOp{ConvolutionOp::Direction::kForward, image, weights, product, shape.window});
  if (bias) {
    const OperandId vector = writer.use(context.parameter(layer, 1).value);
    const OperandId sum =
        fused.relu_inside ? writer.pointwise(PointwiseMode::kAdd, product, vector) : y;
    if (fused.relu_inside) {
      writer.add(PointwiseOp{PointwiseMode::kRelu, sum, sum, y});
    } else {
      writer.add(PointwiseOp{PointwiseMode::kAdd, product, vector, y});
    }
  }
  if (fused.statistics) write_statistics(context, writer, layer, y);
  writer.finish();
  if (!fused.statistics_apart) return;
  const BatchNormState& norm = add_sums(context, layer);
  const BufferId parts = add_parts(context, own.name + " statistics", shape.output, 2);
  context.run(layer, "statistics",
              {.kernel = Kernel::kChannelStatistics,
               .buffers = {context.tensors[output].value, parts, norm.sum, norm.sum_of_squares}});
}

void lower_convolution_backward(LoweringContext& context, std::size_t layer) {
  const Layer& own = context.layer(layer);
  const ConvolutionShape shape = shape_of(context, layer);
  const BufferId dy = context.gradient(layer, layer + 1);
  {
    // First the weights' gradient, which the exchange waits for.
    GraphWriter writer(context, layer, "weight gradient");
    const OperandId image = image_operand(context, writer, own.inputs[0], shape.image);
    const OperandId output = writer.use(dy);
    const OperandId weights = writer.use(context.parameter(layer, 0).gradient, shape.weights);
    writer.add(ConvolutionOp{ConvolutionOp::Direction::kBackwardWeights, image, weights, output,
                             shape.window});
    writer.finish();
  }
  if (own.parameters.size() == 2) {
    const BufferId parts = add_parts(context, own.name + " bias gradient", shape.output, 1);
    context.run(layer, "bias gradient",
                {.kernel = Kernel::kBiasGradient,
                 .buffers = {dy, parts, context.parameter(layer, 1).gradient}});
  }
  if (context.wants_gradient(own.inputs[0])) lower_data_gradient(context, layer, dy);
}

}  // namespace phub::nn::cuda
