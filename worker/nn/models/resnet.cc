// Residual networks (He et al., "Deep residual learning for image recognition", 2016), for ImageNet
// and for small images, and ResNeXt (Xie et al., "Aggregated residual transformations", 2017).
#include "worker/nn/models/build.h"

namespace phub::nn::models {
namespace {

Convolution convolution1x1(std::uint32_t channels, std::uint32_t stride) {
  return {.channels = channels, .window = {1, stride, 0}, .bias = false};
}

Convolution convolution3x3(std::uint32_t channels, std::uint32_t stride, std::uint32_t groups) {
  return {.channels = channels, .window = {3, stride, 1}, .bias = false, .groups = groups};
}

std::string block_name(std::size_t stage, int block) {
  return "layer" + std::to_string(stage + 1) + "." + std::to_string(block);
}

// One block of the ImageNet networks.
struct BlockShape {
  std::uint32_t inner;   // channels of the 3 x 3 convolutions
  std::uint32_t outer;   // of the block's output
  std::uint32_t stride;  // of the first 3 x 3 convolution, as torchvision does it ("v1.5")
};

TensorId residual(Builder& net, const std::string& name, TensorId input, const BlockShape& shape,
                  const ResnetLayout& layout, bool zero_gamma) {
  const BatchNorm inside{.relu = true};
  const BatchNorm last{.zero_scale = zero_gamma};
  if (!layout.bottleneck) {
    TensorId x = net.add(name + ".conv1", convolution3x3(shape.inner, shape.stride, 1), input);
    x = net.add(name + ".bn1", inside, x);
    x = net.add(name + ".conv2", convolution3x3(shape.outer, 1, 1), x);
    return net.add(name + ".bn2", last, x);
  }
  TensorId x = net.add(name + ".conv1", convolution1x1(shape.inner, 1), input);
  x = net.add(name + ".bn1", inside, x);
  x = net.add(name + ".conv2", convolution3x3(shape.inner, shape.stride, layout.groups), x);
  x = net.add(name + ".bn2", inside, x);
  x = net.add(name + ".conv3", convolution1x1(shape.outer, 1), x);
  return net.add(name + ".bn3", last, x);
}

// A projection where the shape changes (option B).
TensorId shortcut(Builder& net, const std::string& name, TensorId input, const BlockShape& shape) {
  if (shape.stride == 1 && net.shape(input).channels == shape.outer) return input;
  const TensorId x =
      net.add(name + ".downsample.0", convolution1x1(shape.outer, shape.stride), input);
  return net.add(name + ".downsample.1", BatchNorm{}, x);
}

}  // namespace

Result<Graph> resnet(const Target& target, const ResnetLayout& layout) {
  Builder net(target.image);
  TensorId x = net.add("conv1", Convolution{.channels = 64, .window = {7, 2, 3}, .bias = false}, 0);
  x = net.add("bn1", BatchNorm{.relu = true}, x);
  x = net.add("maxpool", Pool{PoolKind::kMax, {3, 2, 1}}, x);
  std::uint32_t width = 64;
  for (std::size_t stage = 0; stage < std::size(layout.blocks); ++stage, width *= 2) {
    const std::uint32_t inner = width / 64 * layout.width * layout.groups;
    for (int block = 0; block < layout.blocks[stage]; ++block) {
      const std::string name = block_name(stage, block);
      const BlockShape shape{.inner = inner,
                             .outer = layout.bottleneck ? 4 * width : width,
                             .stride = stage > 0 && block == 0 ? 2U : 1U};
      const TensorId branch = residual(net, name, x, shape, layout, target.zero_gamma);
      const TensorId straight = shortcut(net, name, x, shape);
      x = net.add(name + ".add", Add{.relu = true}, {branch, straight});
    }
  }
  x = net.add("avgpool", GlobalAveragePool{}, x);
  net.add("fc", InnerProduct{.outputs = target.classes}, x);
  return std::move(net).finish();
}

// Section 4.2 of the paper, with parameter-free shortcuts (option A).
Result<Graph> resnet_cifar(const Target& target, int blocks) {
  constexpr std::uint32_t kStageChannels[] = {16, 32, 64};
  Builder net(target.image);
  TensorId x = net.add("conv1", convolution3x3(kStageChannels[0], 1, 1), 0);
  x = net.add("bn1", BatchNorm{.relu = true}, x);
  for (std::size_t stage = 0; stage < std::size(kStageChannels); ++stage) {
    for (int block = 0; block < blocks; ++block) {
      const std::string name = block_name(stage, block);
      const BlockShape shape{.inner = kStageChannels[stage],
                             .outer = kStageChannels[stage],
                             .stride = stage > 0 && block == 0 ? 2U : 1U};
      const TensorId branch =
          residual(net, name, x, shape, {.blocks = {}, .bottleneck = false}, target.zero_gamma);
      if (shape.stride > 1)
        x = net.add(name + ".shortcut", Subsample{shape.outer, shape.stride}, x);
      x = net.add(name + ".add", Add{.relu = true}, {branch, x});
    }
  }
  x = net.add("pool", GlobalAveragePool{}, x);
  net.add("fc", InnerProduct{.outputs = target.classes}, x);
  return std::move(net).finish();
}

}  // namespace phub::nn::models
