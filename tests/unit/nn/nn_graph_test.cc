// What a graph makes of layers: shapes, parameters, and what it refuses.
#include <catch2/catch.hpp>
#include <string>

#include "worker/nn/dropout.h"
#include "worker/nn/graph/graph.h"

namespace phub::nn {
namespace {

Shape shape_after(const Shape& input, const LayerKind& kind) {
  Graph graph(input);
  return graph.shape(graph.add("layer", kind, {0}));
}

TEST_CASE("Windows may differ down and across") {
  const Window row{.kernel = {1, 7}, .stride = {1, 2}, .padding = {0, 3}};
  REQUIRE(shape_after({4, 17, 17}, Convolution{.channels = 8, .window = row}) == Shape{8, 17, 9});
  REQUIRE(shape_after({4, 17, 17}, Pool{PoolKind::kAverage, row}) == Shape{4, 17, 9});
}

TEST_CASE("A pool that rounds up has a window over the end, but none in the padding only") {
  const auto pool = [](const Window& window, bool ceil) {
    return Pool{.kind = PoolKind::kMax, .window = window, .ceil = ceil};
  };
  // PyTorch 2: nn.MaxPool2d(3, 2, ceil_mode=True) makes 112 to 56, nn.MaxPool2d(3, 2) to 55.
  const Window window{.kernel = 3, .stride = 2};
  REQUIRE(shape_after({1, 112, 112}, pool(window, true)) == Shape{1, 56, 56});
  REQUIRE(shape_after({1, 112, 112}, pool(window, false)) == Shape{1, 55, 55});
  // nn.MaxPool2d(2, 2, padding=1, ceil_mode=True): the third window would see padding only.
  const Window padded{.kernel = 2, .stride = 2, .padding = 1};
  REQUIRE(shape_after({1, 3, 3}, pool(padded, true)) == Shape{1, 2, 2});
  REQUIRE(shape_after({1, 4, 4}, pool(padded, true)) == Shape{1, 3, 3});
}

TEST_CASE("A group's weights see its part of the input") {
  Graph graph({.channels = 6, .height = 5, .width = 5});
  graph.add("conv", Convolution{.channels = 4, .window = {3, 1, 1}, .groups = 2}, {0});
  const ParameterSpec& weight = graph.layers()[0].parameters[0];
  REQUIRE(weight.shape == std::vector<std::uint64_t>{4, 3, 3, 3});
  REQUIRE(weight.fan_in() == 27);
}

TEST_CASE("Decay and LARS are for weights of convolutions and inner products only") {
  Graph graph({.channels = 3, .height = 4, .width = 4});
  TensorId x = graph.add("conv", Convolution{.channels = 4}, {0});
  x = graph.add("bn", BatchNorm{.zero_scale = true}, {x});
  graph.add("fc", InnerProduct{.outputs = 2}, {x});
  std::string with, without;
  for (const Layer& layer : graph.layers()) {
    for (const ParameterSpec& spec : layer.parameters) {
      REQUIRE(spec.lars() == spec.decays());
      (spec.decays() ? with : without) += spec.name + " ";
    }
  }
  REQUIRE(with == "conv.weight fc.weight ");
  REQUIRE(without == "conv.bias bn.weight bn.bias fc.bias ");
  REQUIRE(graph.layers()[1].parameters[0].fill == Fill::kZero);
}

TEST_CASE("A concatenation has the channels of all its inputs") {
  Graph graph({.channels = 3, .height = 4, .width = 4});
  const TensorId a = graph.add("a", Convolution{.channels = 5}, {0});
  REQUIRE(graph.shape(graph.add("all", Concat{}, {0, a, 0})) == Shape{11, 4, 4});
}

TEST_CASE("A layer that cannot be is refused with its field and a cure") {
  struct Case {
    LayerKind kind;
    std::vector<TensorId> inputs;
    const char* said;
  };
  const Case cases[] = {
      {Convolution{}, {0}, "channels: is missing"},
      {Convolution{.channels = 4, .groups = 3}, {0}, "groups: 3 does not divide the input's 4"},
      {Convolution{.channels = 4, .groups = 0}, {0}, "groups: 0"},
      {Convolution{.channels = 4, .window = {.kernel = 9}}, {0}, "kernel: 9 rows do not fit"},
      {Convolution{.channels = 4, .window = {.kernel = {1, 9}}}, {0}, "kernel: 9 columns"},
      {Convolution{.channels = 4, .window = {.kernel = 0}}, {0}, "kernel: is 0"},
      {Convolution{.channels = 4, .window = {3, 0, 0}}, {0}, "stride: is 0"},
      {Convolution{.channels = 4, .window = {3, 1, 3}}, {0}, "padding: 3 on a kernel of 3 rows"},
      {Convolution{.channels = 4'000'000'000}, {0}, "more than 2^31 elements"},
      {InnerProduct{}, {0}, "outputs: is missing"},
      {InnerProduct{.outputs = 2'000'000'000}, {0}, "its weights have more than 2^31"},
      {Pool{.kind = PoolKind::kAverage, .ceil = true}, {0}, "ceil: is for maxima only"},
      {Pool{.kind = PoolKind::kMax, .count_padding = true}, {0}, "count_padding: is for averages"},
      {BatchNorm{.epsilon = 0.0F}, {0}, "epsilon: is not between 0 and 1"},
      {BatchNorm{.momentum = 2.0F}, {0}, "momentum: is not from 0 to 1"},
      {Add{}, {0}, "inputs: are 1; this kind takes 2"},
      {Add{}, {0, 1}, "only equal shapes can be added"},
      {Concat{}, {0}, "inputs: are fewer than two"},
      {Concat{}, {0, 1}, "heights and widths must be equal"},
      {Dropout{.ratio = 1.0F}, {0}, "ratio: is not at least 0 and below 1"},
      {Subsample{.channels = 8, .stride = 0}, {0}, "stride: is 0"},
      {Subsample{.channels = 2, .stride = 1}, {0}, "channels: 2 is below the input's 4"},
      {Relu{}, {7}, "inputs: a layer reads what comes before it"},
      {Relu{}, {}, "inputs: are 0"},
  };
  Graph graph({.channels = 4, .height = 5, .width = 5});
  graph.add("pool", Pool{.window = {.kernel = 2}}, {0});
  const Graph before = graph;
  for (const Case& each : cases) {
    const auto added = graph.try_add("layer", each.kind, each.inputs);
    INFO(each.said);
    REQUIRE_FALSE(added);
    REQUIRE(added.error().code() == Code::kInvalidArgument);
    INFO(added.error().message());
    REQUIRE(added.error().message().find(each.said) != std::string::npos);
    REQUIRE(graph == before);
  }
  REQUIRE_FALSE(graph.try_add("", Relu{}, {0}));
  REQUIRE_FALSE(graph.try_add("pool", Relu{}, {0}));
}

TEST_CASE("Dropout drops its share, by noise, layer and element") {
  constexpr std::uint64_t kElements = 100'000;
  const DropoutMask mask(1, "drop", 0.3F);
  std::uint64_t kept = 0, as_other_noise = 0, as_other_layer = 0;
  for (std::uint64_t i = 0; i < kElements; ++i) {
    kept += mask.keeps(i) ? 1U : 0U;
    as_other_noise += mask.keeps(i) == DropoutMask(2, "drop", 0.3F).keeps(i) ? 1U : 0U;
    as_other_layer += mask.keeps(i) == DropoutMask(1, "drop2", 0.3F).keeps(i) ? 1U : 0U;
    REQUIRE(mask.keeps(i) == DropoutMask(1, "drop", 0.3F).keeps(i));
    REQUIRE(DropoutMask(1, "drop", 0.0F).keeps(i));
  }
  // Five standard deviations of a binomial distribution; independent masks agree in
  // 0.7^2 + 0.3^2 of the elements.
  REQUIRE(static_cast<double>(kept) / kElements == Approx(0.7).margin(0.0073));
  REQUIRE(static_cast<double>(as_other_noise) / kElements == Approx(0.58).margin(0.0079));
  REQUIRE(static_cast<double>(as_other_layer) / kElements == Approx(0.58).margin(0.0079));
}

}  // namespace
}  // namespace phub::nn
