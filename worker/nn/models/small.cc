// LeNet-5 and FCN-5, for MNIST's images.
#include "worker/nn/models/build.h"

namespace phub::nn::models {

Result<Graph> lenet(const Target& target) {
  const Window window5{.kernel = 5};
  const Pool pool2{PoolKind::kMax, {.kernel = 2, .stride = 2}};
  Builder net(target.image);
  TensorId x = net.add("conv1", Convolution{.channels = 20, .window = window5}, 0);
  x = net.add("pool1", pool2, x);
  x = net.add("conv2", Convolution{.channels = 50, .window = window5}, x);
  x = net.add("pool2", pool2, x);
  x = net.add("fc1", InnerProduct{.outputs = 500}, x);
  x = net.add("relu1", Relu{}, x);
  net.add("fc2", InnerProduct{.outputs = target.classes}, x);
  return std::move(net).finish();
}

// Of Shi et al., "Benchmarking state-of-the-art deep learning software tools" (2016), whose record
// says 13,707,264 weights on MNIST: 784-4096-2048-1024-10 has exactly these. (The files beside that
// record have 2048 and 4096 the other way round, which are 14,198,784, and sigmoids, for which
// ReLUs stand here: they cost the same and learn.)
Result<Graph> fcn5(const Target& target) {
  Builder net(target.image);
  TensorId x = 0;
  int number = 0;
  for (const std::uint32_t outputs : {4096U, 2048U, 1024U}) {
    const std::string suffix = std::to_string(++number);
    x = net.add("fc" + suffix, InnerProduct{.outputs = outputs}, x);
    x = net.add("relu" + suffix, Relu{}, x);
  }
  net.add("fc4", InnerProduct{.outputs = target.classes}, x);
  return std::move(net).finish();
}

}  // namespace phub::nn::models
