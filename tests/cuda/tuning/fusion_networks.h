// Small networks of the blocks that ResNet-50, VGG-16 and GoogLeNet are made of, for tests that
// interpret them on the host. networks.h has more kinds of layers in one.
#pragma once

#include <cstdint>
#include <string>

#include "worker/nn/graph/graph.h"

namespace phub::nn::testing {

inline TensorId add_conv_norm(Graph& graph, const std::string& name, TensorId from,
                              std::uint32_t channels, Window window, bool relu) {
  const TensorId x =
      graph.add(name, Convolution{.channels = channels, .window = window, .bias = false}, {from});
  return graph.add(name + "bn", BatchNorm{.relu = relu}, {x});
}

// Bottlenecks as in ResNet-50 (v1.5): with a projection, with a stride, and with neither.
inline Graph bottlenecks() {
  Graph graph({.channels = 3, .height = 16, .width = 16});
  TensorId x = add_conv_norm(graph, "stem", 0, 8, {.kernel = 7, .stride = 2, .padding = 3}, true);
  x = graph.add("pool", Pool{PoolKind::kMax, {.kernel = 3, .stride = 2, .padding = 1}}, {x});
  for (const std::uint32_t block : {0U, 1U, 2U}) {
    const std::string name = "block" + std::to_string(block);
    const std::uint32_t stride = block == 1 ? 2 : 1;
    const std::uint32_t width = block == 0 ? 8 : 16;
    TensorId y = add_conv_norm(graph, name + "a", x, width, {}, true);
    y = add_conv_norm(graph, name + "b", y, width, {.kernel = 3, .stride = stride, .padding = 1},
                      true);
    y = add_conv_norm(graph, name + "c", y, 2 * width, {}, false);
    if (block < 2) {
      x = add_conv_norm(graph, name + "p", x, 2 * width, {.kernel = 1, .stride = stride}, false);
    }
    x = graph.add(name + "add", Add{.relu = true}, {y, x});
  }
  x = graph.add("average", GlobalAveragePool{}, {x});
  graph.add("fc", InnerProduct{.outputs = 10}, {x});
  return graph;
}

inline TensorId add_conv_relu(Graph& graph, const std::string& name, TensorId from,
                              std::uint32_t channels, Window window) {
  const TensorId x = graph.add(name, Convolution{.channels = channels, .window = window}, {from});
  return graph.add(name + "relu", Relu{}, {x});
}

inline Graph vgg_blocks() {
  const Window window3{.kernel = 3, .padding = 1};
  Graph graph({.channels = 3, .height = 8, .width = 8});
  TensorId x = add_conv_relu(graph, "conv1", 0, 8, window3);
  x = add_conv_relu(graph, "conv2", x, 8, window3);
  x = graph.add("pool1", Pool{PoolKind::kMax, {.kernel = 2, .stride = 2}}, {x});
  x = add_conv_relu(graph, "conv3", x, 16, window3);
  x = add_conv_relu(graph, "conv4", x, 16, window3);
  x = graph.add("pool2", Pool{PoolKind::kMax, {.kernel = 2, .stride = 2}}, {x});
  for (const char* name : {"fc1", "fc2"}) {
    x = graph.add(name, InnerProduct{.outputs = 24}, {x});
    x = graph.add(std::string(name) + "relu", Relu{}, {x});
    x = graph.add(std::string(name) + "drop", Dropout{.ratio = 0.5F}, {x});
  }
  graph.add("fc3", InnerProduct{.outputs = 10}, {x});
  return graph;
}

// Two of GoogLeNet's modules, one behind the other.
inline Graph inceptions() {
  Graph graph({.channels = 3, .height = 9, .width = 9});
  TensorId x = add_conv_relu(graph, "stem", 0, 8, {.kernel = 3, .padding = 1});
  for (const char* module : {"a", "b"}) {
    const std::string name(module);
    const TensorId one = add_conv_relu(graph, name + "1", x, 8, {});
    const TensorId three =
        add_conv_relu(graph, name + "3", add_conv_relu(graph, name + "3r", x, 8, {}), 12,
                      {.kernel = 3, .padding = 1});
    const TensorId five =
        add_conv_relu(graph, name + "5", add_conv_relu(graph, name + "5r", x, 4, {}), 8,
                      {.kernel = 5, .padding = 2});
    const TensorId pooled = graph.add(
        name + "pool", Pool{PoolKind::kMax, {.kernel = 3, .stride = 1, .padding = 1}}, {x});
    const TensorId four = add_conv_relu(graph, name + "p", pooled, 8, {});
    x = graph.add(name, Concat{}, {one, three, five, four});
  }
  x = graph.add("average", GlobalAveragePool{}, {x});
  graph.add("fc", InnerProduct{.outputs = 10}, {x});
  return graph;
}

}  // namespace phub::nn::testing
