// What the models are built with: a graph that keeps its first error, and the pieces that several
// models share. Used by worker/nn/models/ only.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "common/base/status.h"
#include "worker/nn/graph/graph.h"

namespace phub::nn::models {

// What a model is built for.
struct Target {
  Shape image;
  std::uint32_t classes = 0;
  bool zero_gamma = false;
};

// After an error (an image that is too small for a pool), add does nothing and returns the input.
class Builder {
 public:
  explicit Builder(const Shape& image) : graph_(image) {}

  TensorId add(const std::string& name, const LayerKind& kind, std::vector<TensorId> inputs);
  TensorId add(const std::string& name, const LayerKind& kind, TensorId input) {
    return add(name, kind, std::vector<TensorId>{input});
  }
  const Shape& shape(TensorId tensor) const { return graph_.shape(tensor); }

  Result<Graph> finish() &&;

 private:
  Graph graph_;
  Status status_;
};

// torchvision's BasicConv2d: NAME.conv without bias, NAME.bn with a ReLU and an epsilon of 1e-3.
TensorId basic_convolution(Builder& net, const std::string& name, TensorId input,
                           const Convolution& convolution);

Result<Graph> lenet(const Target& target);
Result<Graph> fcn5(const Target& target);
Result<Graph> alexnet(const Target& target);
Result<Graph> alexnet_bn(const Target& target);
Result<Graph> googlenet(const Target& target);
Result<Graph> inception_v3(const Target& target);

// 11, 16 or 19.
Result<Graph> vgg(const Target& target, int depth);

// For small images: 6n + 2 layers, n = `blocks` in each of three stages.
Result<Graph> resnet_cifar(const Target& target, int blocks);

// For ImageNet.
struct ResnetLayout {
  int blocks[4];             // of each stage
  bool bottleneck = true;    // 1x1, 3x3, 1x1; else 3x3, 3x3
  std::uint32_t groups = 1;  // ResNeXt: of the 3x3 convolutions
  std::uint32_t width = 64;  // channels of a group in the first stage
};
Result<Graph> resnet(const Target& target, const ResnetLayout& layout);

}  // namespace phub::nn::models
