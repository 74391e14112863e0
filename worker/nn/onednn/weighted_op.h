// An op with a weight and maybe a bias, of one implementation: an inner product's.
#pragma once

#include <optional>
#include <span>

#include "common/base/check.h"
#include "worker/nn/onednn/primitives.h"

namespace phub::nn::onednn {

// The plain layouts are the exchange's; the bias is empty where there is none.
struct WeightDescs {
  dnnl::memory::desc weights;
  dnnl::memory::desc bias;
};

// Base: the derived constructor makes the calls on memories of the sources and sinks.
class WeightedOp : public Op {
 public:
  Status bind(std::span<const Binding> bindings) override {
    PHUB_CHECK(bindings.size() == (has_bias_ ? 2U : 1U), "weights and, if there is one, bias");
    weights_.bind(bindings[0].parameter);
    if (backward_weights_source_) backward_weights_source_->bind(bindings[0].parameter);
    weights_gradient_.bind(bindings[0].gradient);
    if (has_bias_) {
      bias_.bind(bindings[1].parameter);
      bias_gradient_.bind(bindings[1].gradient);
    }
    return {};
  }

  Status forward(Mode) override {
    PHUB_RETURN_IF_ERROR(weights_.refresh(context_));
    if (has_bias_) PHUB_RETURN_IF_ERROR(bias_.refresh(context_));
    return forward_.run(context_);
  }

  Status backward() override {
    if (!backward_data_.empty()) {
      if (backward_weights_source_) {
        PHUB_RETURN_IF_ERROR(backward_weights_source_->refresh(context_));
      }
      PHUB_RETURN_IF_ERROR(backward_data_.run(context_));
    }
    PHUB_RETURN_IF_ERROR(backward_weights_.run(context_));
    if (has_bias_) PHUB_RETURN_IF_ERROR(bias_gradient_.publish(context_));
    return weights_gradient_.publish(context_);
  }

 protected:
  WeightedOp(const WeightDescs& plain, Context& context)
      : context_(context), plain_(plain), has_bias_(!plain.bias.is_zero()) {}

  static dnnl::primitive_attr attributes() {
    dnnl::primitive_attr attr;
    attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    return attr;
  }

  template <typename PrimitiveDesc>
  dnnl::memory scratchpad(const PrimitiveDesc& desc) {
    return context_.room.scratchpad.view(desc.scratchpad_desc(), context_.engine);
  }

  template <typename Primitive>
  void set_forward(const typename Primitive::primitive_desc& desc, const dnnl::memory& input,
                   const dnnl::memory& output) {
    weights_ = ParameterSource(plain_.weights, desc.weights_desc(), context_);
    if (has_bias_) bias_ = ParameterSource(plain_.bias, desc.bias_desc(), context_);
    forward_ = Call(Primitive(desc), {{DNNL_ARG_SRC, input},
                                      {DNNL_ARG_WEIGHTS, weights_.memory()},
                                      {DNNL_ARG_BIAS, bias_.memory()},
                                      {DNNL_ARG_DST, output},
                                      {DNNL_ARG_SCRATCHPAD, scratchpad(desc)}});
  }

  template <typename Primitive>
  void set_backward_weights(const typename Primitive::primitive_desc& desc,
                            const dnnl::memory& input, const dnnl::memory& output_gradient) {
    weights_gradient_ = GradientSink(plain_.weights, desc.diff_weights_desc(), context_);
    if (has_bias_) bias_gradient_ = GradientSink(plain_.bias, desc.diff_bias_desc(), context_);
    backward_weights_ = Call(Primitive(desc), {{DNNL_ARG_SRC, input},
                                               {DNNL_ARG_DIFF_DST, output_gradient},
                                               {DNNL_ARG_DIFF_WEIGHTS, weights_gradient_.memory()},
                                               {DNNL_ARG_DIFF_BIAS, bias_gradient_.memory()},
                                               {DNNL_ARG_SCRATCHPAD, scratchpad(desc)}});
  }

  // REQUIRES: set_forward came before.
  template <typename Primitive>
  void set_backward_data(const typename Primitive::primitive_desc& desc,
                         const dnnl::memory& output_gradient, const dnnl::memory& input_gradient) {
    // Forward's copy of the weights is still good where the layouts agree.
    if (desc.weights_desc() != weights_.memory().get_desc()) {
      backward_weights_source_.emplace(plain_.weights, desc.weights_desc(), context_);
    }
    const ParameterSource& weights =
        backward_weights_source_ ? *backward_weights_source_ : weights_;
    backward_data_ = Call(Primitive(desc), {{DNNL_ARG_DIFF_DST, output_gradient},
                                            {DNNL_ARG_WEIGHTS, weights.memory()},
                                            {DNNL_ARG_DIFF_SRC, input_gradient},
                                            {DNNL_ARG_SCRATCHPAD, scratchpad(desc)}});
  }

  Context& context_;

 private:
  WeightDescs plain_;
  bool has_bias_;
  ParameterSource weights_, bias_;
  std::optional<ParameterSource> backward_weights_source_;
  GradientSink weights_gradient_, bias_gradient_;
  Call forward_, backward_data_, backward_weights_;
};

}  // namespace phub::nn::onednn
