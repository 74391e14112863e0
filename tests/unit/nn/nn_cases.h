// Graphs that together have every layer kind with every field, and small versions of the models:
// what each backend is checked on.
#pragma once

#include <string>
#include <vector>

#include "worker/nn/models/models.h"

namespace phub::nn {

struct GraphCase {
  std::string name;
  Graph graph;
  std::uint32_t batch = 2;
};

inline GraphCase one_layer_case(const std::string& name, const Shape& input,
                                const LayerKind& kind) {
  GraphCase made{name, Graph(input)};
  made.graph.add("layer", kind, {0});
  return made;
}

inline std::vector<GraphCase> window_cases() {
  const Window row{.kernel = {1, 7}, .stride = 1, .padding = {0, 3}};
  const Window column{.kernel = {3, 1}, .stride = {2, 1}, .padding = {1, 0}};
  const Shape image{4, 7, 8};
  const auto average = PoolKind::kAverage;
  return {
      one_layer_case("3x3", image, Convolution{.channels = 5, .window = {3, 1, 1}}),
      one_layer_case("3x3 strided", image,
                     Convolution{.channels = 5, .window = {3, 2, 1}, .bias = false}),
      one_layer_case("1x1 strided", image, Convolution{.channels = 20, .window = {1, 2, 0}}),
      one_layer_case("11x11", {3, 13, 13}, Convolution{.channels = 2, .window = {11, 4, 2}}),
      one_layer_case("1x7", image, Convolution{.channels = 6, .window = row}),
      one_layer_case("3x1 strided", image, Convolution{.channels = 6, .window = column}),
      one_layer_case("16 channels", {16, 5, 5}, Convolution{.channels = 16, .window = {3, 1, 1}}),
      one_layer_case("16 to 48 channels", {16, 7, 9},
                     Convolution{.channels = 48, .window = {3, 1, 1}, .bias = false}),
      one_layer_case("32 channels strided", {32, 9, 8},
                     Convolution{.channels = 32, .window = {3, 2, 1}, .bias = false}),
      one_layer_case("16 channels in groups", {16, 5, 5},
                     Convolution{.channels = 16, .window = {3, 1, 1}, .groups = 2}),
      one_layer_case("two groups", image,
                     Convolution{.channels = 6, .window = {3, 1, 1}, .groups = 2}),
      one_layer_case("32 groups", {64, 5, 5},
                     Convolution{.channels = 64, .window = {3, 2, 1}, .bias = false, .groups = 32}),
      one_layer_case("max 2x2", image, Pool{PoolKind::kMax, {2, 2, 0}}),
      one_layer_case("max 3x3 padded", image, Pool{PoolKind::kMax, {3, 2, 1}}),
      one_layer_case("max 3x3 up", image,
                     Pool{.kind = PoolKind::kMax, .window = {3, 2, 0}, .ceil = true}),
      one_layer_case("max 3x3 padded up", image,
                     Pool{.kind = PoolKind::kMax, .window = {3, 1, 1}, .ceil = true}),
      one_layer_case("max 2x2 padded up", image,
                     Pool{.kind = PoolKind::kMax, .window = {2, 2, 1}, .ceil = true}),
      one_layer_case("average 2x2", image, Pool{average, {2, 2, 0}}),
      one_layer_case("average padded", image, Pool{average, {3, 1, 1}}),
      one_layer_case("average padded and counted", image,
                     Pool{.kind = average, .window = {3, 2, 1}, .count_padding = true}),
      one_layer_case("global average", image, GlobalAveragePool{}),
  };
}

// A sum that no normalisation is fused with.
inline GraphCase plain_sum_case(const Shape& image, bool relu) {
  GraphCase made{relu ? "plain sum with relu" : "plain sum", Graph(image)};
  const TensorId a = made.graph.add("a", BatchNorm{.relu = true}, {0});
  const TensorId b = made.graph.add("b", BatchNorm{.relu = true}, {0});
  made.graph.add("sum", Add{.relu = relu}, {a, b});
  return made;
}

// A residual block's end: the second normalisation is read by the sum only.
inline GraphCase normalised_sum_case(const Shape& image, bool relu) {
  GraphCase made{relu ? "normalised sum with relu" : "normalised sum", Graph(image)};
  const TensorId straight = made.graph.add("straight", BatchNorm{.relu = true}, {0});
  const TensorId branch = made.graph.add("branch", BatchNorm{}, {0});
  made.graph.add("sum", Add{.relu = relu}, {branch, straight});
  return made;
}

inline std::vector<GraphCase> other_cases() {
  const Shape image{6, 4, 5};
  std::vector<GraphCase> all = {
      one_layer_case("product of an image", image, InnerProduct{.outputs = 7}),
      one_layer_case("product without bias", {.channels = 33},
                     InnerProduct{.outputs = 7, .bias = false}),
      one_layer_case("relu", image, Relu{}),
      one_layer_case("normalisation", image, BatchNorm{}),
      one_layer_case("normalisation and relu", {16, 4, 5}, BatchNorm{.relu = true}),
      one_layer_case("wide normalisation", {37, 3, 3}, BatchNorm{.relu = true, .epsilon = 1e-3F}),
      one_layer_case("dropout", image, Dropout{.ratio = 0.3F}),
      one_layer_case("subsample", {3, 5, 5}, Subsample{.channels = 7, .stride = 2}),
  };
  for (const bool relu : {false, true}) {
    GraphCase sum{relu ? "residual block with relu" : "residual block", Graph(image)};
    const TensorId before = sum.graph.add("before", Convolution{.channels = 8}, {0});
    const TensorId branch =
        sum.graph.add("branch", Convolution{.channels = 8, .window = {3, 1, 1}}, {before});
    sum.graph.add("sum", Add{.relu = relu}, {branch, before});
    all.push_back(sum);
    all.push_back(normalised_sum_case({17, 4, 5}, relu));
  }
  GraphCase shared{"a normalised sum beside another reader", Graph(image)};
  const TensorId norm = shared.graph.add("norm", BatchNorm{}, {0});
  const TensorId sum = shared.graph.add("sum", Add{.relu = true}, {norm, 0});
  shared.graph.add("all", Concat{}, {sum, norm});
  all.push_back(shared);
  GraphCase twice{"a normalisation added to itself", Graph(image)};
  const TensorId once = twice.graph.add("norm", BatchNorm{}, {0});
  twice.graph.add("sum", Add{}, {once, once});
  all.push_back(twice);
  GraphCase joined{"concatenation", Graph(image)};
  const TensorId a = joined.graph.add("a", Convolution{.channels = 3}, {0});
  const TensorId b = joined.graph.add("b", Pool{PoolKind::kMax, {3, 1, 1}}, {a});
  joined.graph.add("all", Concat{}, {a, 0, b, a});
  all.push_back(joined);
  return all;
}

inline GraphCase model_case(std::string_view name, const Shape& image, std::uint32_t batch) {
  return {std::string(name), *make_model(name, {.classes = 10, .image = image}), batch};
}

// Images that are as small as the models take, for which normalisations still see several pixels.
inline std::vector<GraphCase> small_models() {
  const Shape small{3, 32, 32};
  const Shape middle{3, 64, 64};
  return {model_case("lenet", {1, 28, 28}, 4),      model_case("fcn5", {1, 28, 28}, 4),
          model_case("resnet20", small, 2),         model_case("alexnet", middle, 2),
          model_case("alexnet_bn", {3, 67, 67}, 8), model_case("vgg11", small, 2),
          model_case("googlenet", middle, 4),       model_case("inception_v3", {3, 107, 107}, 4),
          model_case("resnet18", middle, 4),        model_case("resnet50", middle, 4),
          model_case("resnext50_32x4d", middle, 4)};
}

}  // namespace phub::nn
