#include "worker/nn/graph/graph.h"

#include <array>
#include <functional>
#include <numeric>
#include <utility>

#include "common/base/check.h"
#include "worker/nn/graph/layer_rules.h"

namespace phub::nn {
namespace {

// What a layer declares, named after it.
struct Parameters {
  const Shape& input;
  const std::string& name;

  ParameterSpec weight(std::vector<std::uint64_t> shape, Fill fill) const {
    return {.name = name + ".weight", .shape = std::move(shape), .fill = fill};
  }
  ParameterSpec bias(std::uint64_t elements) const {
    return {.name = name + ".bias", .shape = {elements}, .bias = true};
  }
  std::vector<ParameterSpec> operator()(const Convolution& layer) const {
    const Extent& kernel = layer.window.kernel;
    std::vector<ParameterSpec> all = {
        weight({layer.channels, input.channels / layer.groups, kernel.height, kernel.width},
               Fill::kHeNormal)};
    if (layer.bias) all.push_back(bias(layer.channels));
    return all;
  }
  std::vector<ParameterSpec> operator()(const InnerProduct& layer) const {
    std::vector<ParameterSpec> all = {
        weight({layer.outputs, input.elements()}, Fill::kLecunNormal)};
    if (layer.bias) all.push_back(bias(layer.outputs));
    return all;
  }
  std::vector<ParameterSpec> operator()(const BatchNorm& layer) const {
    return {{.name = name + ".weight",
             .shape = {input.channels},
             .bias = true,
             .fill = layer.zero_scale ? Fill::kZero : Fill::kOne},
            bias(input.channels)};
  }
  template <typename NoParameters>
  std::vector<ParameterSpec> operator()(const NoParameters&) const {
    return {};
  }
};

}  // namespace

std::string_view name_of(const LayerKind& kind) {
  constexpr std::array<std::string_view, std::variant_size_v<LayerKind>> kNames = {
      "convolution", "inner_product", "pool", "global_average_pool",
      "relu",        "batch_norm",    "add",  "concat",
      "dropout",     "subsample"};
  return kNames[kind.index()];
}

std::uint64_t ParameterSpec::elements() const {
  return std::accumulate(shape.begin(), shape.end(), std::uint64_t{1}, std::multiplies<>());
}

std::uint64_t ParameterSpec::fan_in() const { return shape.empty() ? 1 : elements() / shape[0]; }

Result<TensorId> Graph::try_add(std::string name, LayerKind kind, std::vector<TensorId> inputs) {
  if (name.empty()) {
    return Status(Code::kInvalidArgument, "name: is missing; parameters are named after layers");
  }
  for (const Layer& layer : layers_) {
    if (layer.name != name) continue;
    return Status(Code::kInvalidArgument, "name: another layer has it; choose a name of its own");
  }
  std::vector<Shape> shapes;
  for (const TensorId input : inputs) {
    if (input >= shapes_.size()) {
      return Status(Code::kInvalidArgument, "inputs: a layer reads what comes before it");
    }
    shapes.push_back(shapes_[input]);
  }
  PHUB_ASSIGN_OR_RETURN(const Shape output, output_shape_of(kind, shapes));
  std::vector<ParameterSpec> parameters = std::visit(Parameters{shapes[0], name}, kind);
  layers_.push_back({std::move(name), kind, std::move(inputs), std::move(parameters)});
  shapes_.push_back(output);
  return shapes_.size() - 1;
}

TensorId Graph::add(std::string name, LayerKind kind, std::vector<TensorId> inputs) {
  const auto added = try_add(std::move(name), kind, std::move(inputs));
  PHUB_CHECK(added.has_value(), added.error().message());
  return *added;
}

std::uint64_t Graph::parameter_elements() const {
  std::uint64_t sum = 0;
  for (const Layer& layer : layers_) {
    for (const ParameterSpec& parameter : layer.parameters) sum += parameter.elements();
  }
  return sum;
}

}  // namespace phub::nn
