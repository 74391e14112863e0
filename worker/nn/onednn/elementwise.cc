// ReLU, the sum at the end of a residual block, and the sum of a tensor's two gradients.
#include <cstring>

#include "kernels/activations.h"
#include "worker/nn/onednn/layers.h"

namespace phub::nn::onednn {
namespace {

using Memory = dnnl::memory;

// ReLU's algorithm that needs only its output to go back.
constexpr auto kRelu = dnnl::algorithm::eltwise_relu_use_dst_for_bwd;

PrimitiveCall relu_forward(const Memory& input, const Memory& output,
                           const OnednnContext& context) {
  const dnnl::eltwise_forward::primitive_desc desc(
      {dnnl::prop_kind::forward_training, kRelu, input.get_desc(), 0.0F, 0.0F}, context.engine);
  return PrimitiveCall(dnnl::eltwise_forward(desc),
                       {{DNNL_ARG_SRC, input}, {DNNL_ARG_DST, output}});
}

// input_gradient = output > 0 ? output_gradient : 0
PrimitiveCall relu_backward(const OnednnTensor& output, const Memory& input_gradient,
                            const OnednnContext& context) {
  const Memory::desc desc = output.value().get_desc();
  const dnnl::eltwise_forward::primitive_desc forward(
      {dnnl::prop_kind::forward_training, kRelu, desc, 0.0F, 0.0F}, context.engine);
  const dnnl::eltwise_backward::primitive_desc backward({kRelu, desc, desc, 0.0F, 0.0F},
                                                        context.engine, forward);
  return PrimitiveCall(dnnl::eltwise_backward(backward), {{DNNL_ARG_DST, output.value()},
                                                          {DNNL_ARG_DIFF_DST, output.gradient()},
                                                          {DNNL_ARG_DIFF_SRC, input_gradient}});
}

class ReluOp : public Op {
 public:
  ReluOp(const OnednnTensor& input, const OnednnTensor& output, OnednnContext& context)
      : context_(context), forward_(relu_forward(input.value(), output.value(), context)) {
    if (input.has_gradient()) backward_ = relu_backward(output, input.gradient(), context);
  }

  Status forward(Mode) override { return forward_.run(context_); }
  Status backward() override { return backward_.empty() ? Status() : backward_.run(context_); }

 private:
  OnednnContext& context_;
  PrimitiveCall forward_, backward_;
};

// Calls work(offset in bytes, elements) for each thread's part of the tensor.
template <typename Work>
void for_each_share(const OnednnTensor& tensor, const OnednnContext& context, const Work& work) {
  context.team.run(tensor.elements(), [&](const TeamShare& share) {
    const TeamShare::Range range = share.of(tensor.elements());
    work(range.first * size_of(tensor.type()), range.count);
  });
}

class AddOp : public SumOp {
 public:
  AddOp(const Add& layer, const OpSite& site)
      : context_(site.context),
        relu_(layer.relu),
        first_(*site.inputs[0]),
        second_(*site.inputs[1]),
        output_(site.output) {}

  bool leave_to(NormInSum& norm, const OnednnTensor& input) override {
    if (norm_ != nullptr) return false;
    norm_ = &norm;
    residual_ = &input == &first_ ? &second_ : &first_;
    return true;
  }

  Status forward(Mode) override {
    if (norm_ != nullptr) {
      norm_->write_sum(*residual_, output_, relu_);
      return {};
    }
    for_each_share(output_, context_, [&](std::size_t offset, std::size_t elements) {
      kernels::add_activations({.elements = elements,
                                .type = output_.type(),
                                .first = bytes(first_.value()) + offset,
                                .second = bytes(second_.value()) + offset,
                                .output = bytes(output_.value()) + offset,
                                .relu = relu_});
    });
    return {};
  }

  // The inputs' gradients are the same.
  Status backward() override {
    if (norm_ != nullptr) {
      norm_->take_gradient(*residual_, output_, relu_);
      return {};
    }
    const OnednnTensor* first = &first_;
    const OnednnTensor* second = &second_;
    if (!first->has_gradient()) std::swap(first, second);
    if (!first->has_gradient()) return {};
    std::byte* const to = bytes(first->gradient());
    std::byte* const also_to = second->has_gradient() ? bytes(second->gradient()) : nullptr;
    for_each_share(output_, context_, [&](std::size_t offset, std::size_t elements) {
      write_gradient(offset, elements, to + offset, also_to ? also_to + offset : nullptr);
    });
    return {};
  }

 private:
  void write_gradient(std::size_t offset, std::size_t elements, std::byte* to,
                      std::byte* also_to) const {
    const std::byte* const gradient = bytes(output_.gradient()) + offset;
    if (relu_) {
      return kernels::mask_gradient({.elements = elements,
                                     .type = output_.type(),
                                     .output = bytes(output_.value()) + offset,
                                     .gradient = gradient,
                                     .first = to,
                                     .second = also_to});
    }
    const std::size_t size = elements * size_of(output_.type());
    std::memcpy(to, gradient, size);
    if (also_to != nullptr) std::memcpy(also_to, gradient, size);
  }

  const OnednnContext& context_;
  bool relu_;
  const OnednnTensor& first_;
  const OnednnTensor& second_;
  const OnednnTensor& output_;
  NormInSum* norm_ = nullptr;  // does this op's work, if there is one
  const OnednnTensor* residual_ = nullptr;
};

class AccumulateOp : public Op {
 public:
  AccumulateOp(const OnednnTensor& tensor, const OnednnTensor& view, const OnednnContext& context)
      : context_(context), tensor_(tensor), view_(view) {}

  Status forward(Mode) override { return {}; }

  Status backward() override {
    for_each_share(tensor_, context_, [&](std::size_t offset, std::size_t elements) {
      std::byte* const sum = bytes(tensor_.gradient()) + offset;
      kernels::add_activations({.elements = elements,
                                .type = tensor_.type(),
                                .first = sum,
                                .second = bytes(view_.gradient()) + offset,
                                .output = sum});
    });
    return {};
  }

 private:
  const OnednnContext& context_;
  const OnednnTensor& tensor_;
  const OnednnTensor& view_;
};

}  // namespace

std::unique_ptr<Op> make(const Relu&, const OpSite& site) {
  return std::make_unique<ReluOp>(site.input(), site.output, site.context);
}

std::unique_ptr<Op> make(const Add& layer, const OpSite& site) {
  return std::make_unique<AddOp>(layer, site);
}

std::unique_ptr<Op> make_accumulate(OnednnTensor& tensor, OnednnTensor& view,
                                    OnednnContext& context) {
  return std::make_unique<AccumulateOp>(tensor, view, context);
}

}  // namespace phub::nn::onednn
