#include "worker/nn/graph/layer_rules.h"

#include <string>

namespace phub::nn {
namespace {

Status wrong(const std::string& text) { return {Code::kInvalidArgument, text}; }

std::string in_words(const Shape& shape) {
  return std::to_string(shape.channels) + " x " + std::to_string(shape.height) + " x " +
         std::to_string(shape.width);
}

// How windows cover one axis: rows or columns.
struct Axis {
  std::uint32_t input, kernel, stride, padding;
  const char* what;
};

enum class Rounding { kFloor, kCeil };

Result<std::uint32_t> windows_along(const Axis& axis, Rounding rounding) {
  const std::string sizes = std::to_string(axis.kernel) + " " + axis.what;
  if (axis.kernel == 0) return wrong("kernel: is 0; give the window's size in pixels");
  if (axis.stride == 0) return wrong("stride: is 0; 1 moves the window by a pixel");
  if (axis.padding >= axis.kernel) {
    return wrong("padding: " + std::to_string(axis.padding) + " on a kernel of " + sizes +
                 " makes windows of padding only; give less than the kernel");
  }
  const std::uint64_t padded = std::uint64_t{axis.input} + 2ULL * axis.padding;
  if (padded < axis.kernel) {
    return wrong("kernel: " + sizes + " do not fit the input's " + std::to_string(axis.input) +
                 " with a padding of " + std::to_string(axis.padding) +
                 "; give a smaller kernel, more padding or larger images");
  }
  const std::uint64_t room = padded - axis.kernel;
  std::uint64_t windows = room / axis.stride + 1;
  // As PyTorch does it: a further window that reaches over the end, unless it starts there.
  if (rounding == Rounding::kCeil && room % axis.stride != 0 &&
      windows * axis.stride < std::uint64_t{axis.input} + axis.padding) {
    ++windows;
  }
  if (windows > UINT32_MAX) {
    return wrong("padding: makes " + std::to_string(windows) + " windows of " + sizes +
                 "; give a smaller padding");
  }
  return static_cast<std::uint32_t>(windows);
}

Result<Shape> windowed(const Shape& input, std::uint32_t channels, const Window& window,
                       Rounding rounding) {
  const auto& [kernel, stride, padding] = window;
  PHUB_ASSIGN_OR_RETURN(
      const std::uint32_t height,
      windows_along({input.height, kernel.height, stride.height, padding.height, "rows"},
                    rounding));
  PHUB_ASSIGN_OR_RETURN(
      const std::uint32_t width,
      windows_along({input.width, kernel.width, stride.width, padding.width, "columns"}, rounding));
  return Shape{channels, height, width};
}

struct OutputShape {
  std::span<const Shape> inputs;

  const Shape& input() const { return inputs[0]; }

  Result<Shape> operator()(const Convolution& layer) const {
    if (layer.channels == 0) return wrong("channels: is missing; give the output's channels");
    if (layer.groups == 0 || input().channels % layer.groups != 0 ||
        layer.channels % layer.groups != 0) {
      return wrong("groups: " + std::to_string(layer.groups) + " does not divide the input's " +
                   std::to_string(input().channels) + " channels and the output's " +
                   std::to_string(layer.channels) + "; choose a divisor of both");
    }
    return windowed(input(), layer.channels, layer.window, Rounding::kFloor);
  }
  Result<Shape> operator()(const InnerProduct& layer) const {
    if (layer.outputs == 0) return wrong("outputs: is missing; give the number of outputs");
    return Shape{layer.outputs, 1, 1};
  }
  Result<Shape> operator()(const Pool& layer) const {
    const bool averages = layer.kind == PoolKind::kAverage;
    if (averages && layer.ceil) {
      return wrong("ceil: is for maxima only; pad an average's input instead");
    }
    if (!averages && layer.count_padding) {
      return wrong("count_padding: is for averages only; remove it");
    }
    return windowed(input(), input().channels, layer.window,
                    layer.ceil ? Rounding::kCeil : Rounding::kFloor);
  }
  Result<Shape> operator()(const GlobalAveragePool&) const { return Shape{input().channels, 1, 1}; }
  Result<Shape> operator()(const Relu&) const { return input(); }
  Result<Shape> operator()(const BatchNorm& layer) const {
    if (!(layer.epsilon > 0.0F && layer.epsilon < 1.0F)) {
      return wrong("epsilon: is not between 0 and 1; 1e-5 is usual");
    }
    if (!(layer.momentum >= 0.0F && layer.momentum <= 1.0F)) {
      return wrong("momentum: is not from 0 to 1; 0.1 is usual");
    }
    return input();
  }
  Result<Shape> operator()(const Add&) const {
    if (inputs[0] != inputs[1]) {
      return wrong("inputs: are of " + in_words(inputs[0]) + " and " + in_words(inputs[1]) +
                   "; only equal shapes can be added (a convolution of kernel 1 changes one)");
    }
    return input();
  }
  Result<Shape> operator()(const Concat&) const {
    std::uint64_t channels = 0;
    for (const Shape& each : inputs) {
      if (each.height != input().height || each.width != input().width) {
        return wrong("inputs: are of " + in_words(input()) + " and " + in_words(each) +
                     "; heights and widths must be equal");
      }
      channels += each.channels;
    }
    if (channels > kTensorElementsMax) return wrong("inputs: have too many channels together");
    return Shape{static_cast<std::uint32_t>(channels), input().height, input().width};
  }
  Result<Shape> operator()(const Dropout& layer) const {
    if (!(layer.ratio >= 0.0F && layer.ratio < 1.0F)) {
      return wrong("ratio: is not at least 0 and below 1; 0.5 is usual");
    }
    return input();
  }
  Result<Shape> operator()(const Subsample& layer) const {
    if (layer.stride == 0) return wrong("stride: is 0; 2 keeps every second pixel");
    if (layer.channels < input().channels) {
      return wrong("channels: " + std::to_string(layer.channels) + " is below the input's " +
                   std::to_string(input().channels) + "; this shortcut drops none");
    }
    return Shape{layer.channels, (input().height - 1) / layer.stride + 1,
                 (input().width - 1) / layer.stride + 1};
  }
};

Status check_input_count(const LayerKind& kind, std::size_t inputs) {
  if (std::holds_alternative<Concat>(kind)) {
    if (inputs >= 2) return {};
    return wrong("inputs: are fewer than two; name the layers whose outputs to put together");
  }
  const std::size_t wanted = std::holds_alternative<Add>(kind) ? 2 : 1;
  if (inputs == wanted) return {};
  return wrong("inputs: are " + std::to_string(inputs) + "; this kind takes " +
               std::to_string(wanted));
}

// An upper bound of the parameters in one tensor; wide, since factors come from outside.
double weight_elements(const LayerKind& kind, const Shape& input) {
  if (const auto* convolution = std::get_if<Convolution>(&kind)) {
    const Extent& kernel = convolution->window.kernel;
    return double{1} * convolution->channels * (input.channels / convolution->groups) *
           kernel.height * kernel.width;
  }
  if (const auto* product = std::get_if<InnerProduct>(&kind)) {
    return static_cast<double>(input.elements()) * product->outputs;
  }
  return 0.0;
}

}  // namespace

Result<Shape> output_shape_of(const LayerKind& kind, std::span<const Shape> inputs) {
  PHUB_RETURN_IF_ERROR(check_input_count(kind, inputs.size()));
  PHUB_ASSIGN_OR_RETURN(const Shape output, std::visit(OutputShape{inputs}, kind));
  constexpr auto kMax = static_cast<double>(kTensorElementsMax);
  if (double{1} * output.channels * output.height * output.width > kMax) {
    return wrong("its output of " + in_words(output) +
                 " has more than 2^31 elements; use fewer channels or smaller images");
  }
  if (weight_elements(kind, inputs[0]) > kMax) {
    return wrong("its weights have more than 2^31 elements; use fewer channels or outputs");
  }
  return output;
}

}  // namespace phub::nn
