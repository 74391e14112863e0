// A convolution's gradient by its weights from this project's kernel
// (kernels/weight_gradient.h): no layouts, no reorders.
#pragma once

#include <memory>

#include "worker/nn/onednn/library_way.h"

namespace phub::nn::onednn {

// Whether the machine, as oneDNN is allowed to use it, and the kernel do this layer.
bool has_own_weight_gradient(const Convolution& layer, const OnednnTensor& input,
                             const OnednnTensor& output, const OnednnContext& context);

// REQUIRES: it is there. The tensors outlive it.
std::unique_ptr<ComputeWay> make_own_weight_gradient(const Convolution& layer,
                                                     const OnednnTensor& input,
                                                     const OnednnTensor& output,
                                                     const OnednnContext& context);

}  // namespace phub::nn::onednn
