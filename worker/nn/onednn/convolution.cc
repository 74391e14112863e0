#include "worker/nn/onednn/convolution_ways.h"
#include "worker/nn/onednn/layers.h"
#include "worker/nn/onednn/weighted_op.h"

namespace phub::nn::onednn {

std::unique_ptr<Op> make_convolution(const Convolution& layer, OnednnTensor& input,
                                     OnednnTensor& output, OnednnContext& context) {
  const ConvolutionTask task{layer, input, output, context};
  Passes passes{.forward = choose_way(ConvolutionPass::kForward, task),
                .weights = choose_way(ConvolutionPass::kWeights, task),
                .data = nullptr};
  if (input.has_gradient()) passes.data = choose_way(ConvolutionPass::kData, task);
  return std::make_unique<WeightedOp>(std::move(passes), context);
}

}  // namespace phub::nn::onednn
