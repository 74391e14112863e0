// A convolution's gradient by its weights from this project's kernel
// (kernels/weight_gradient.h).
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "kernels/weight_gradient.h"
#include "worker/nn/onednn/primitives.h"

namespace phub::nn::onednn {

class WeightGradient {
 public:
  // Whether the machine, as oneDNN is allowed to use it, and the kernel do this layer.
  static bool exists(const Convolution& layer, const OnednnTensor& input,
                     const OnednnTensor& output, const OnednnContext& context);

  // REQUIRES: it exists. The tensors and the context outlive it.
  static std::unique_ptr<WeightGradient> create(const Convolution& layer, const OnednnTensor& input,
                                                const OnednnTensor& output,
                                                const OnednnContext& context);

  // From the input's value and the output's gradient; gradient: [output][input][3][3].
  void run(float* gradient);

 private:
  WeightGradient(const kernels::Convolution3x3& shape, const OnednnTensor& input,
                 const OnednnTensor& output, const OnednnContext& context);

  kernels::Convolution3x3 shape_;
  const OnednnTensor& input_;
  const OnednnTensor& output_;
  const OnednnContext& context_;
  std::vector<kernels::WeightGradientSums> sums_;  // by thread
};

}  // namespace phub::nn::onednn
