#include "worker/nn/onednn/convolution_ways.h"
#include "worker/nn/onednn/layers.h"

namespace phub::nn::onednn {
namespace {

class ConvolutionOp : public Op {
 public:
  explicit ConvolutionOp(const ConvolutionTask& task)
      : context_(task.context),
        forward_(choose_way(ConvolutionPass::kForward, task)),
        weights_(choose_way(ConvolutionPass::kWeights, task)) {
    if (!task.input.has_gradient()) return;
    data_ = choose_way(ConvolutionPass::kData, task);
    // Forward's copy of the weights is still good where the layouts agree.
    const ParameterSource& copy = *forward_->weights();
    if (data_->weights()->memory().get_desc() == copy.memory().get_desc()) {
      data_->weights()->follow(copy);
    }
  }

  Status bind(std::span<const Binding> bindings) override {
    for (Way* way : {forward_.get(), data_.get(), weights_.get()}) {
      if (way != nullptr) way->bind(bindings);
    }
    return {};
  }

  Status forward(Mode) override { return forward_->run(context_); }

  Status backward() override {
    if (data_) PHUB_RETURN_IF_ERROR(data_->run(context_));
    return weights_->run(context_);
  }

 private:
  Context& context_;
  std::unique_ptr<Way> forward_, weights_;
  std::unique_ptr<Way> data_;  // null: the input has no gradient
};

}  // namespace

std::unique_ptr<Op> make_convolution(const Convolution& layer, OnednnTensor& input,
                                     OnednnTensor& output, Context& context) {
  return std::make_unique<ConvolutionOp>(ConvolutionTask{layer, input, output, context});
}

}  // namespace phub::nn::onednn
