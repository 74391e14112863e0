#include "worker/nn/onednn/layers.h"
#include "worker/nn/onednn/weighted_op.h"

namespace phub::nn::onednn {
namespace {

using dnnl::inner_product_backward_data;
using dnnl::inner_product_backward_weights;
using dnnl::inner_product_forward;
using Memory = dnnl::memory;
using Tag = dnnl::memory::format_tag;

constexpr auto kFloat = Memory::data_type::f32;

bool has_pixels(const OnednnTensor& input) {
  return input.shape().height * input.shape().width > 1;
}

// The input of a fully connected layer keeps its NHWC layout; the weights [output][input] are seen
// as [output][channel][row][column], which is PyTorch's flattening order.
Memory::desc input_desc(const OnednnTensor& input) {
  if (has_pixels(input)) return image_desc(input.batch(), input.shape());
  return {{input.batch(), input.shape().channels}, kFloat, Tag::nc};
}

Memory::desc weights_desc(const OnednnTensor& input, Memory::dim outputs, bool plain) {
  const Shape& in = input.shape();
  if (has_pixels(input)) {
    return {{outputs, in.channels, in.height, in.width}, kFloat, plain ? Tag::oihw : Tag::any};
  }
  return {{outputs, in.channels}, kFloat, plain ? Tag::oi : Tag::any};
}

// The same memory under another description of as many elements.
Memory seen_as(const Memory::desc& desc, const Memory& memory, const Context& context) {
  return Memory(desc, context.engine, memory.get_data_handle());
}

class InnerProductOp : public WeightedOp {
 public:
  InnerProductOp(OnednnTensor& input, OnednnTensor& output, Context& context)
      : WeightedOp({.weights = weights_desc(input, output.shape().channels, true),
                    .bias = {{output.shape().channels}, kFloat, Tag::a}},
                   context) {
    const Memory::dim outputs = output.shape().channels;
    const Memory::desc in = input_desc(input);
    const Memory::desc out({output.batch(), outputs}, kFloat, Tag::nc);
    const Memory::desc weights = weights_desc(input, outputs, false);
    const Memory::desc bias({outputs}, kFloat, Tag::a);
    const Memory input_value = seen_as(in, input.value(), context);
    const Memory output_value = seen_as(out, output.value(), context);
    const Memory output_gradient = seen_as(out, output.gradient(), context);
    const dnnl::engine& engine = context.engine;
    const dnnl::primitive_attr attr = attributes();

    const inner_product_forward::primitive_desc forward(
        {dnnl::prop_kind::forward_training, in, weights, bias, out}, attr, engine);
    set_forward<inner_product_forward>(forward, input_value, output_value);
    set_backward_weights<inner_product_backward_weights>(
        {{in, weights, bias, out}, attr, engine, forward}, input_value, output_gradient);
    if (!input.has_gradient()) return;
    set_backward_data<inner_product_backward_data>({{in, weights, out}, attr, engine, forward},
                                                   output_gradient,
                                                   seen_as(in, input.gradient(), context));
  }
};

}  // namespace

std::unique_ptr<Op> make_inner_product(OnednnTensor& input, OnednnTensor& output,
                                       Context& context) {
  return std::make_unique<InnerProductOp>(input, output, context);
}

}  // namespace phub::nn::onednn
