// ReLU, the sum at the end of a residual block, and the sum of a tensor's two gradients.
#include "common/base/check.h"
#include "worker/nn/onednn/layers.h"

namespace phub::nn::onednn {
namespace {

using Memory = dnnl::memory;

// ReLU's algorithm that needs only its output to go back.
constexpr auto kRelu = dnnl::algorithm::eltwise_relu_use_dst_for_bwd;

Call relu_forward(const Memory& input, const Memory& output, const Context& context) {
  const dnnl::eltwise_forward::primitive_desc desc(
      {dnnl::prop_kind::forward_training, kRelu, input.get_desc(), 0.0F, 0.0F}, context.engine);
  return Call(dnnl::eltwise_forward(desc), {{DNNL_ARG_SRC, input}, {DNNL_ARG_DST, output}});
}

// input_gradient = output > 0 ? output_gradient : 0
Call relu_backward(const OnednnTensor& output, const Memory& input_gradient,
                   const Context& context) {
  const Memory::desc desc = output.value().get_desc();
  const dnnl::eltwise_forward::primitive_desc forward(
      {dnnl::prop_kind::forward_training, kRelu, desc, 0.0F, 0.0F}, context.engine);
  const dnnl::eltwise_backward::primitive_desc backward({kRelu, desc, desc, 0.0F, 0.0F},
                                                        context.engine, forward);
  return Call(dnnl::eltwise_backward(backward), {{DNNL_ARG_DST, output.value()},
                                                 {DNNL_ARG_DIFF_DST, output.gradient()},
                                                 {DNNL_ARG_DIFF_SRC, input_gradient}});
}

Call copy(const Memory& from, const Memory& to) {
  return Call(dnnl::reorder(from, to), {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}});
}

Call add(const Memory& first, const Memory& second, const Memory& sum, const Context& context) {
  const Memory::desc desc = sum.get_desc();
  const dnnl::binary::primitive_desc add_desc({dnnl::algorithm::binary_add, desc, desc, desc},
                                              context.engine);
  return Call(dnnl::binary(add_desc),
              {{DNNL_ARG_SRC_0, first}, {DNNL_ARG_SRC_1, second}, {DNNL_ARG_DST, sum}});
}

Call add_relu(const AddInputs& inputs, const OnednnTensor& output, const Context& context) {
  dnnl::post_ops relu;
  relu.append_eltwise(1.0F, dnnl::algorithm::eltwise_relu, 0.0F, 0.0F);
  dnnl::primitive_attr attr;
  attr.set_post_ops(relu);
  const Memory::desc desc = output.value().get_desc();
  const dnnl::binary::primitive_desc add_desc({dnnl::algorithm::binary_add, desc, desc, desc}, attr,
                                              context.engine);
  return Call(dnnl::binary(add_desc), {{DNNL_ARG_SRC_0, inputs.first.value()},
                                       {DNNL_ARG_SRC_1, inputs.second.value()},
                                       {DNNL_ARG_DST, output.value()}});
}

// An op without parameters: at most one call forward, and some in a row backward.
class ElementwiseOp : public Op {
 public:
  ElementwiseOp(Call forward, std::vector<Call> backward, Context& context)
      : context_(context), forward_(std::move(forward)), backward_(std::move(backward)) {}

  Status bind(std::span<const Binding> bindings) override {
    PHUB_CHECK(bindings.empty(), "the layer has no parameters");
    return {};
  }
  Status forward(Mode) override { return forward_.empty() ? Status() : forward_.run(context_); }
  Status backward() override {
    for (const Call& call : backward_) PHUB_RETURN_IF_ERROR(call.run(context_));
    return {};
  }

 private:
  Context& context_;
  Call forward_;
  std::vector<Call> backward_;
};

}  // namespace

std::unique_ptr<Op> make_relu(OnednnTensor& input, OnednnTensor& output, Context& context) {
  std::vector<Call> backward;
  if (input.has_gradient()) backward.push_back(relu_backward(output, input.gradient(), context));
  return std::make_unique<ElementwiseOp>(relu_forward(input.value(), output.value(), context),
                                         std::move(backward), context);
}

std::unique_ptr<Op> make_add(const Add& layer, const AddInputs& inputs, OnednnTensor& output,
                             Context& context) {
  Call forward = layer.relu
                     ? add_relu(inputs, output, context)
                     : add(inputs.first.value(), inputs.second.value(), output.value(), context);
  std::vector<Call> backward;
  for (const OnednnTensor* input : {&inputs.first, &inputs.second}) {
    if (!input->has_gradient()) continue;
    backward.push_back(layer.relu ? relu_backward(output, input->gradient(), context)
                                  : copy(output.gradient(), input->gradient()));
  }
  return std::make_unique<ElementwiseOp>(std::move(forward), std::move(backward), context);
}

std::unique_ptr<Op> make_accumulate(OnednnTensor& tensor, OnednnTensor& view, Context& context) {
  std::vector<Call> backward;
  backward.push_back(add(tensor.gradient(), view.gradient(), tensor.gradient(), context));
  return std::make_unique<ElementwiseOp>(Call(), std::move(backward), context);
}

}  // namespace phub::nn::onednn
