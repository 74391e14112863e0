// The ways to compute a convolution's passes: oneDNN's implementations for images in NHWC and in
// the layouts it likes best, and this project's.
//
// Functions of the backend's thread; they throw dnnl::error (see primitives.h).
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "worker/nn/onednn/kernel_book.h"
#include "worker/nn/onednn/library_way.h"

namespace phub::nn::onednn {

enum class ConvolutionPass { kForward, kData, kWeights };

// Outlived by the tensors and the context.
struct ConvolutionTask {
  const Convolution& layer;
  OnednnTensor& input;
  OnednnTensor& output;
  Context& context;
};

// A way that can be made, and what the book is to know of it.
struct WayPlan {
  Kernel kernel;  // without `prepare`
  std::function<std::unique_ptr<Way>(Room& room)> make;
};

// At least one; the first is oneDNN's for NHWC. kData's needs an input with a gradient.
std::vector<WayPlan> ways_of(ConvolutionPass pass, const ConvolutionTask& task);

// "forward bf16 64 x 16x32x32 to 16x32x32, kernel 3x3, stride 1x1, padding 1x1, groups 1": what a
// time is good for, beside the machine and the threads.
std::string operation_of(ConvolutionPass pass, const ConvolutionTask& task);

// The way that the context's book chooses, made.
std::unique_ptr<Way> choose_way(ConvolutionPass pass, const ConvolutionTask& task);

}  // namespace phub::nn::onednn
