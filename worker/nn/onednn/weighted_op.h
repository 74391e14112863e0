// An op with a weight and maybe a bias: what convolution and inner product have in common.
#pragma once

#include <memory>
#include <span>
#include <utility>

#include "worker/nn/onednn/library_way.h"

namespace phub::nn::onednn {

// How an op's passes are computed.
struct Passes {
  std::unique_ptr<ComputeWay> forward;
  std::unique_ptr<ComputeWay> weights;  // their gradient, and the bias'
  std::unique_ptr<ComputeWay> data;     // the input's; null where it has none
};

class WeightedOp : public Op {
 public:
  WeightedOp(Passes passes, OnednnContext& context)
      : context_(context), passes_(std::move(passes)) {
    if (passes_.data == nullptr) return;
    // Forward's copy of the weights is still good where the layouts agree.
    const ParameterSource& copy = *passes_.forward->weights();
    if (passes_.data->weights()->memory().get_desc() == copy.memory().get_desc()) {
      passes_.data->weights()->follow(copy);
    }
  }

  Status bind(std::span<const Binding> bindings) override {
    passes_.forward->bind(bindings);
    passes_.weights->bind(bindings);
    if (passes_.data != nullptr) passes_.data->bind(bindings);
    return {};
  }

  Status forward(Mode) override { return passes_.forward->run(context_); }

  Status backward() override {
    if (passes_.data != nullptr) PHUB_RETURN_IF_ERROR(passes_.data->run(context_));
    return passes_.weights->run(context_);
  }

 protected:
  OnednnContext& context() { return context_; }

 private:
  OnednnContext& context_;
  Passes passes_;
};

}  // namespace phub::nn::onednn
