// GoogLeNet (Szegedy et al., "Going deeper with convolutions", 2015) as torchvision has it: batch
// normalisation after each convolution, and 3 x 3 kernels where the paper has 5 x 5.
//
// Without the two auxiliary classifiers: batch normalisation took over their task (Szegedy et al.,
// "Rethinking the Inception architecture", 2016, section 4, finds them to help little and late), a
// graph has one output and one loss, and published parameter counts and FLOPs are without them.
#include "worker/nn/models/build.h"

namespace phub::nn::models {
namespace {

// Output channels of the four branches, with those of the reductions before the 3 x 3.
struct InceptionChannels {
  std::uint32_t c1x1, reduce3x3, c3x3, reduce5x5, c5x5, pool;
};

Pool max_pool(const Window& window) {
  return {.kind = PoolKind::kMax, .window = window, .ceil = true};
}

TensorId inception(Builder& net, const std::string& name, TensorId input,
                   const InceptionChannels& channels) {
  const Window window3{3, 1, 1};
  const TensorId one =
      basic_convolution(net, name + ".branch1", input, {.channels = channels.c1x1});
  TensorId three = basic_convolution(net, name + ".branch2.0", input, {channels.reduce3x3});
  three = basic_convolution(net, name + ".branch2.1", three, {channels.c3x3, window3});
  TensorId five = basic_convolution(net, name + ".branch3.0", input, {channels.reduce5x5});
  five = basic_convolution(net, name + ".branch3.1", five, {channels.c5x5, window3});
  TensorId pool = net.add(name + ".branch4.0", max_pool(window3), input);
  pool = basic_convolution(net, name + ".branch4.1", pool, {.channels = channels.pool});
  return net.add(name, Concat{}, {one, three, five, pool});
}

}  // namespace

Result<Graph> googlenet(const Target& target) {
  const Window window3{.kernel = 3, .stride = 2};
  Builder net(target.image);
  TensorId x = basic_convolution(net, "conv1", 0, {.channels = 64, .window = {7, 2, 3}});
  x = net.add("maxpool1", max_pool(window3), x);
  x = basic_convolution(net, "conv2", x, {.channels = 64});
  x = basic_convolution(net, "conv3", x, {.channels = 192, .window = {3, 1, 1}});
  x = net.add("maxpool2", max_pool(window3), x);
  x = inception(net, "inception3a", x, {64, 96, 128, 16, 32, 32});
  x = inception(net, "inception3b", x, {128, 128, 192, 32, 96, 64});
  x = net.add("maxpool3", max_pool(window3), x);
  x = inception(net, "inception4a", x, {192, 96, 208, 16, 48, 64});
  x = inception(net, "inception4b", x, {160, 112, 224, 24, 64, 64});
  x = inception(net, "inception4c", x, {128, 128, 256, 24, 64, 64});
  x = inception(net, "inception4d", x, {112, 144, 288, 32, 64, 64});
  x = inception(net, "inception4e", x, {256, 160, 320, 32, 128, 128});
  x = net.add("maxpool4", max_pool({.kernel = 2, .stride = 2}), x);
  x = inception(net, "inception5a", x, {256, 160, 320, 32, 128, 128});
  x = inception(net, "inception5b", x, {384, 192, 384, 48, 128, 128});
  x = net.add("avgpool", GlobalAveragePool{}, x);
  x = net.add("dropout", Dropout{.ratio = 0.2F}, x);
  net.add("fc", InnerProduct{.outputs = target.classes}, x);
  return std::move(net).finish();
}

}  // namespace phub::nn::models
