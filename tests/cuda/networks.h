// A network for tests of the CUDA backend.
#pragma once

#include <cstdint>
#include <string>

#include "worker/nn/graph/graph.h"

namespace phub::nn::testing {

// Everything that the fusions look for: bottleneck blocks with and without a projection, a tensor
// with several readers, groups, pooling that rounds up, concatenation, dropout, rectangular
// windows.
inline Graph blocks() {
  const auto conv = [](std::uint32_t channels, Window window, std::uint32_t groups = 1) {
    return Convolution{.channels = channels, .window = window, .bias = false, .groups = groups};
  };
  const Window window3{.kernel = 3, .padding = 1};
  Graph graph({.channels = 3, .height = 13, .width = 11});
  TensorId x = graph.add("stem", conv(8, {.kernel = 3, .stride = 2, .padding = 1}), {0});
  x = graph.add("stem_bn", BatchNorm{.relu = true}, {x});
  x = graph.add("stem_pool", Pool{PoolKind::kMax, {.kernel = 2, .stride = 2}, true}, {x});
  TensorId input = x;
  for (const char* block : {"a", "b"}) {
    const std::string name(block);
    x = graph.add(name + "1", conv(8, {}), {input});
    x = graph.add(name + "1bn", BatchNorm{.relu = true}, {x});
    x = graph.add(name + "2", conv(8, window3), {x});
    x = graph.add(name + "2bn", BatchNorm{.relu = true}, {x});
    x = graph.add(name + "3", conv(16, {}), {x});
    x = graph.add(name + "3bn", BatchNorm{}, {x});
    TensorId shortcut = input;
    if (name == "a") {
      shortcut = graph.add("ap", conv(16, {}), {input});
      shortcut = graph.add("apbn", BatchNorm{}, {shortcut});
    }
    input = graph.add(name + "add", Add{.relu = true}, {x, shortcut});
  }
  x = graph.add("tall", conv(12, {.kernel = {3, 1}, .padding = {1, 0}}), {input});
  x = graph.add("tallbn", BatchNorm{.relu = true}, {x});
  TensorId y = graph.add("grouped", conv(16, window3, 4), {input});
  y = graph.add("groupedbn", BatchNorm{.relu = true}, {y});
  TensorId z = graph.add("average", Pool{PoolKind::kAverage, window3}, {input});
  x = graph.add("concat", Concat{}, {x, y, z});
  x = graph.add("biased", Convolution{.channels = 20, .window = window3}, {x});
  x = graph.add("biased_relu", Relu{}, {x});
  x = graph.add("strided", conv(16, {.kernel = 1, .stride = 2}), {x});
  x = graph.add("stridedbn", BatchNorm{.relu = true}, {x});
  x = graph.add("fc1", InnerProduct{.outputs = 20}, {x});
  x = graph.add("fc1_relu", Relu{}, {x});
  x = graph.add("dropout", Dropout{.ratio = 0.5F}, {x});
  graph.add("fc2", InnerProduct{.outputs = 5}, {x});
  return graph;
}

}  // namespace phub::nn::testing
