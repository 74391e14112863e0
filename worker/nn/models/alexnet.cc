// AlexNet twice: torchvision's, and the one with batch normalisation for large batches.
#include "worker/nn/models/build.h"

namespace phub::nn::models {
namespace {

const Pool kPool3{PoolKind::kMax, {.kernel = 3, .stride = 2}};

}  // namespace

// Krizhevsky, "One weird trick for parallelizing convolutional neural networks" (2014): no groups
// and no local response normalisation. The adaptive pool between the halves is the identity for
// images of 224 x 224, and is left out: the first inner product takes what there is.
Result<Graph> alexnet(const Target& target) {
  Builder net(target.image);
  TensorId x = net.add("features.0", Convolution{.channels = 64, .window = {11, 4, 2}}, 0);
  x = net.add("features.1", Relu{}, x);
  x = net.add("features.2", kPool3, x);
  x = net.add("features.3", Convolution{.channels = 192, .window = {5, 1, 2}}, x);
  x = net.add("features.4", Relu{}, x);
  x = net.add("features.5", kPool3, x);
  x = net.add("features.6", Convolution{.channels = 384, .window = {3, 1, 1}}, x);
  x = net.add("features.7", Relu{}, x);
  x = net.add("features.8", Convolution{.channels = 256, .window = {3, 1, 1}}, x);
  x = net.add("features.9", Relu{}, x);
  x = net.add("features.10", Convolution{.channels = 256, .window = {3, 1, 1}}, x);
  x = net.add("features.11", Relu{}, x);
  x = net.add("features.12", kPool3, x);
  x = net.add("classifier.0", Dropout{}, x);
  x = net.add("classifier.1", InnerProduct{.outputs = 4096}, x);
  x = net.add("classifier.2", Relu{}, x);
  x = net.add("classifier.3", Dropout{}, x);
  x = net.add("classifier.4", InnerProduct{.outputs = 4096}, x);
  x = net.add("classifier.5", Relu{}, x);
  net.add("classifier.6", InnerProduct{.outputs = target.classes}, x);
  return std::move(net).finish();
}

// Ginsburg's alexnet_bn of NVIDIA's Caffe, which You et al., "Large batch training of convolutional
// networks" (2017), scale to batches of 32,768: Krizhevsky et al. (2012) with their groups, batch
// normalisation in place of local response normalisation. With Jia et al. 2018 (section 3.2) a
// further one after pool5, whose outputs' variance grows without a bound otherwise.
Result<Graph> alexnet_bn(const Target& target) {
  const auto convolution = [](std::uint32_t channels, const Window& window, std::uint32_t groups) {
    return Convolution{.channels = channels, .window = window, .bias = false, .groups = groups};
  };
  const BatchNorm norm{.epsilon = 1e-4F};
  const BatchNorm norm_relu{.relu = true, .epsilon = 1e-4F};
  Builder net(target.image);
  TensorId x = net.add("conv1", convolution(96, {11, 4, 0}, 1), 0);
  x = net.add("bn1", norm_relu, x);
  x = net.add("pool1", kPool3, x);
  x = net.add("conv2", convolution(256, {5, 1, 2}, 2), x);
  x = net.add("bn2", norm_relu, x);
  x = net.add("pool2", kPool3, x);
  x = net.add("conv3", convolution(384, {3, 1, 1}, 1), x);
  x = net.add("bn3", norm_relu, x);
  x = net.add("conv4", convolution(384, {3, 1, 1}, 2), x);
  x = net.add("bn4", norm_relu, x);
  // The original gives this one a bias, which the normalisation takes away again.
  x = net.add("conv5", convolution(256, {3, 1, 1}, 2), x);
  x = net.add("bn5", norm_relu, x);
  x = net.add("pool5", kPool3, x);
  x = net.add("bn_pool5", norm, x);
  x = net.add("fc6", InnerProduct{.outputs = 4096}, x);
  x = net.add("relu6", Relu{}, x);
  x = net.add("drop6", Dropout{}, x);
  x = net.add("fc7", InnerProduct{.outputs = 4096}, x);
  x = net.add("relu7", Relu{}, x);
  x = net.add("drop7", Dropout{}, x);
  net.add("fc8", InnerProduct{.outputs = target.classes}, x);
  return std::move(net).finish();
}

}  // namespace phub::nn::models
