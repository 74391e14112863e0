#include "worker/nn/models.h"

#include <string>

namespace phub::nn {
namespace {

Convolution convolution3x3(std::uint32_t channels, std::uint32_t stride) {
  return {
      .channels = channels, .window = {.kernel = 3, .stride = stride, .padding = 1}, .bias = false};
}

// relu(bn(conv(relu(bn(conv(x))))) + shortcut(x))
TensorId residual_block(Graph& graph, const std::string& name, TensorId input,
                        std::uint32_t channels) {
  const bool widens = graph.shape(input).channels != channels;
  const std::uint32_t stride = widens ? 2 : 1;
  TensorId x = graph.add(name + ".conv1", convolution3x3(channels, stride), {input});
  x = graph.add(name + ".bn1", BatchNorm{.relu = true}, {x});
  x = graph.add(name + ".conv2", convolution3x3(channels, 1), {x});
  x = graph.add(name + ".bn2", BatchNorm{}, {x});
  TensorId shortcut = input;
  if (widens) {
    shortcut =
        graph.add(name + ".shortcut", Subsample{.channels = channels, .stride = stride}, {input});
  }
  return graph.add(name + ".add", Add{.relu = true}, {x, shortcut});
}

}  // namespace

Graph lenet(std::uint32_t classes) {
  const Window window5{.kernel = 5};
  const Window window2{.kernel = 2, .stride = 2};
  Graph graph({.channels = 1, .height = 28, .width = 28});
  TensorId x = graph.add("conv1", Convolution{.channels = 20, .window = window5}, {0});
  x = graph.add("pool1", Pool{PoolKind::kMax, window2}, {x});
  x = graph.add("conv2", Convolution{.channels = 50, .window = window5}, {x});
  x = graph.add("pool2", Pool{PoolKind::kMax, window2}, {x});
  x = graph.add("fc1", InnerProduct{.outputs = 500}, {x});
  x = graph.add("relu1", Relu{}, {x});
  graph.add("fc2", InnerProduct{.outputs = classes}, {x});
  return graph;
}

Graph resnet20(std::uint32_t classes) {
  constexpr std::uint32_t kStageChannels[] = {16, 32, 64};
  constexpr int kBlocksPerStage = 3;
  Graph graph({.channels = 3, .height = 32, .width = 32});
  TensorId x = graph.add("conv1", convolution3x3(kStageChannels[0], 1), {0});
  x = graph.add("bn1", BatchNorm{.relu = true}, {x});
  int stage = 0;
  for (const std::uint32_t channels : kStageChannels) {
    ++stage;
    for (int block = 0; block < kBlocksPerStage; ++block) {
      const std::string name = "layer" + std::to_string(stage) + "." + std::to_string(block);
      x = residual_block(graph, name, x, channels);
    }
  }
  x = graph.add("pool", GlobalAveragePool{}, {x});
  graph.add("fc", InnerProduct{.outputs = classes}, {x});
  return graph;
}

Result<Graph> make_model(std::string_view name, std::uint32_t classes) {
  if (classes == 0) {
    return Status(Code::kInvalidArgument, "model.classes is 0: give the number of labels");
  }
  if (name == "lenet") return lenet(classes);
  if (name == "resnet20") return resnet20(classes);
  return Status(Code::kInvalidArgument,
                "model.name \"" + std::string(name) + "\" is unknown: use lenet or resnet20");
}

}  // namespace phub::nn
