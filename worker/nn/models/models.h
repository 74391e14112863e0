// The networks that phub-worker knows by name.
//
// Layers, and so parameters, are named as in PyTorch's torchvision where it has the network, so
// that checkpoints go both ways. Pure functions; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "common/base/status.h"
#include "worker/nn/graph/graph.h"

namespace phub::nn {

struct ModelInfo {
  std::string_view name;      // "resnet50"
  Shape image;                // what its paper trains on
  std::uint32_t classes = 0;  // of the same
  std::string_view summary;   // one line: what it is, and whose
};

// In the order in which they are listed.
std::span<const ModelInfo> model_list();

struct ModelOptions {
  std::uint32_t classes = 0;     // 0: ModelInfo's
  std::optional<Shape> image{};  // nothing: ModelInfo's; inner products grow and shrink with it
  // The last batch normalisation of each residual block starts with scale 0 (Goyal et al.,
  // "Accurate, large minibatch SGD", 2017; Jia et al. 2018): at first the blocks are identities.
  bool zero_gamma = false;
};

// Errors: kInvalidArgument names the models there are, or the layer that the image is too small
// for.
Result<Graph> make_model(std::string_view name, const ModelOptions& options = {});

// LeNet-5 as Caffe trains it (LeCun et al. 1998, with 20, 50 and 500 units): 28 x 28 grey images,
// 431,080 parameters for 10 classes. REQUIRES: classes > 0.
Graph lenet(std::uint32_t classes);

// ResNet-20 for 32 x 32 colour images (He et al. 2016, section 4.2) with its parameter-free
// shortcuts (option A): 269,722 parameters for 10 classes, batch normalisation included. (With
// projections, option B, it would have 272,474.) REQUIRES: classes > 0.
Graph resnet20(std::uint32_t classes);

}  // namespace phub::nn
