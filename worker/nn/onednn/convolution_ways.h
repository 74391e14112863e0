// The ways to compute a convolution's passes: oneDNN's implementations for images in NHWC and in
// the layouts it likes best, and this project's.
//
// A function of the backend's thread; it throws dnnl::error (see primitives.h).
#pragma once

#include <memory>

#include "worker/nn/onednn/way_choice.h"

namespace phub::nn::onednn {

enum class ConvolutionPass { kForward, kData, kWeights };

// Outlived by the tensors and the context.
struct ConvolutionTask {
  const Convolution& layer;
  OnednnTensor& input;
  OnednnTensor& output;
  OnednnContext& context;
};

// The way that the context's book chooses. kData's needs an input with a gradient. The book knows
// it as "forward bf16 64 x 16x32x32 to 16x32x32, kernel 3x3, stride 1x1, padding 1x1, groups 1".
std::unique_ptr<ComputeWay> choose_way(ConvolutionPass pass, const ConvolutionTask& task);

}  // namespace phub::nn::onednn
