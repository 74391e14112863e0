// The gradient by a convolution's input, with all that may be done in its kernel.
#pragma once

#include <cstddef>

#include "worker/cuda/lowering/context.h"

namespace phub::nn::cuda {

// As cuDNN sees a convolution or an inner product.
struct ConvolutionShape {
  Dimensions image, weights, output;
  Window2d window;
};

ConvolutionShape shape_of(const LoweringContext& context, std::size_t layer);

// Of `layer`, whose output's gradient is dy. What other readers have contributed is added if the
// kernel takes it; the last reader also masks with the producer's ReLU and makes the sums of the
// producer's batch normalisations.
void lower_data_gradient(LoweringContext& context, std::size_t layer, BufferId dy);

}  // namespace phub::nn::cuda
