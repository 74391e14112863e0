#include "worker/nn/graph.h"

#include <functional>
#include <numeric>
#include <utility>

#include "common/base/check.h"

namespace phub::nn {
namespace {

std::uint32_t window_output(std::uint32_t input, const Window& window) {
  PHUB_CHECK(window.kernel > 0 && window.stride > 0, "a window has a size and a stride");
  PHUB_CHECK(input + 2 * window.padding >= window.kernel, "the window is larger than its input");
  return (input + 2 * window.padding - window.kernel) / window.stride + 1;
}

// What a layer makes of its first input's shape.
struct OutputShape {
  Shape input;

  Shape operator()(const Convolution& layer) const {
    return {layer.channels, window_output(input.height, layer.window),
            window_output(input.width, layer.window)};
  }
  Shape operator()(const InnerProduct& layer) const { return {layer.outputs, 1, 1}; }
  Shape operator()(const Pool& layer) const {
    return {input.channels, window_output(input.height, layer.window),
            window_output(input.width, layer.window)};
  }
  Shape operator()(const GlobalAveragePool&) const { return {input.channels, 1, 1}; }
  Shape operator()(const Relu&) const { return input; }
  Shape operator()(const BatchNorm&) const { return input; }
  Shape operator()(const Add&) const { return input; }
  Shape operator()(const Subsample& layer) const {
    PHUB_CHECK(layer.channels >= input.channels, "a shortcut does not drop channels");
    return {layer.channels, (input.height + layer.stride - 1) / layer.stride,
            (input.width + layer.stride - 1) / layer.stride};
  }
};

struct Parameters {
  Shape input;
  std::string name;

  ParameterSpec weight(std::vector<std::uint64_t> shape, Fill fill) const {
    return {.name = name + ".weight", .shape = std::move(shape), .fill = fill};
  }
  ParameterSpec bias(std::uint64_t elements) const {
    return {.name = name + ".bias", .shape = {elements}, .bias = true};
  }
  std::vector<ParameterSpec> operator()(const Convolution& layer) const {
    const std::uint64_t kernel = layer.window.kernel;
    std::vector<ParameterSpec> all = {
        weight({layer.channels, input.channels, kernel, kernel}, Fill::kHeNormal)};
    if (layer.bias) all.push_back(bias(layer.channels));
    return all;
  }
  std::vector<ParameterSpec> operator()(const InnerProduct& layer) const {
    return {weight({layer.outputs, input.elements()}, Fill::kLecunNormal), bias(layer.outputs)};
  }
  std::vector<ParameterSpec> operator()(const BatchNorm&) const {
    return {{.name = name + ".weight", .shape = {input.channels}, .bias = true, .fill = Fill::kOne},
            bias(input.channels)};
  }
  template <typename NoParameters>
  std::vector<ParameterSpec> operator()(const NoParameters&) const {
    return {};
  }
};

}  // namespace

std::uint64_t ParameterSpec::elements() const {
  return std::accumulate(shape.begin(), shape.end(), std::uint64_t{1}, std::multiplies<>());
}

std::uint64_t ParameterSpec::fan_in() const { return shape.empty() ? 1 : elements() / shape[0]; }

TensorId Graph::add(std::string name, LayerKind kind, std::vector<TensorId> inputs) {
  const bool is_add = std::holds_alternative<Add>(kind);
  PHUB_CHECK(inputs.size() == (is_add ? 2U : 1U), "an Add has two inputs, other layers one");
  for (const TensorId input : inputs) {
    PHUB_CHECK(input < shapes_.size(), "a layer reads tensors that come before it");
  }
  PHUB_CHECK(!is_add || shapes_[inputs[0]] == shapes_[inputs[1]], "an Add's inputs have one shape");
  const Shape input = shapes_[inputs[0]];
  shapes_.push_back(std::visit(OutputShape{input}, kind));
  std::vector<ParameterSpec> parameters = std::visit(Parameters{input, name}, kind);
  layers_.push_back({std::move(name), kind, std::move(inputs), std::move(parameters)});
  return shapes_.size() - 1;
}

std::uint64_t Graph::parameter_elements() const {
  std::uint64_t sum = 0;
  for (const Layer& layer : layers_) {
    for (const ParameterSpec& parameter : layer.parameters) sum += parameter.elements();
  }
  return sum;
}

}  // namespace phub::nn
