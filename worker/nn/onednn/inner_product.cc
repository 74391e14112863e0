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

// Of a vector for each image, in the type of `memory`.
Memory::desc rows_desc(const OnednnTensor& tensor, const Memory& memory) {
  return {{tensor.batch(), static_cast<Memory::dim>(tensor.shape().elements())},
          memory.get_desc().data_type(),
          Tag::nc};
}

// Reorders an NHWC tensor to [image][channel][row][column], which is how PyTorch flattens, or back.
// Seen as NHWC and as NCHW, an image of one pixel is the same: `flat` is the tensor's own memory.
struct Flattening {
  Flattening(const OnednnTensor& tensor, const Memory& nhwc, const Context& context) {
    const Shape& shape = tensor.shape();
    const Memory::desc nchw({tensor.batch(), shape.channels, shape.height, shape.width},
                            nhwc.get_desc().data_type(), Tag::nchw);
    const bool one_pixel = shape.height * shape.width == 1;
    const Memory plain = one_pixel ? nhwc : Memory(nchw, context.engine);
    flat = Memory(rows_desc(tensor, nhwc), context.engine, plain.get_data_handle());
    if (one_pixel) return;
    storage = plain;
    flatten = Call(dnnl::reorder(nhwc, plain), {{DNNL_ARG_FROM, nhwc}, {DNNL_ARG_TO, plain}});
    unflatten = Call(dnnl::reorder(plain, nhwc), {{DNNL_ARG_FROM, plain}, {DNNL_ARG_TO, nhwc}});
  }

  Memory storage;  // owns what flat points to, if the tensor does not
  Memory flat;     // [image][element]
  Call flatten, unflatten;
};

// In fp32 the weights stay in the exchange's layout, [output][input], which oneDNN's matrix product
// takes as it is: a fully connected layer has most of a network's parameters, and none of them is
// copied. (Blocked weights make the product itself faster, but at these batch sizes the reorders
// cost more.) In bf16 they are copied anyway, into the same layout.
// The network's output, which is the loss's input, is written in fp32.
class InnerProductOp : public WeightedOp {
 public:
  InnerProductOp(const InnerProduct& layer, OnednnTensor& input, OnednnTensor& output,
                 Context& context)
      : WeightedOp({.weights = weights_desc(input, output, kFloat), .bias = bias_desc(layer)},
                   context),
        input_(input, input.value(), context) {
    output.widen_output(context);
    const dnnl::engine& engine = context.engine;
    const Memory::desc in = input_.flat.get_desc();
    const Memory::desc out = rows_desc(output, output.value());
    const Memory::desc out_gradient = rows_desc(output, output.gradient());
    const Memory::desc weights = weights_desc(input, output, dnnl_type(context.type));
    const Memory::desc weights_gradient = weights_desc(input, output, kFloat);
    const Memory::desc bias = bias_desc(layer);
    const Memory output_value(out, engine, output.value().get_data_handle());
    const Memory output_gradient(out_gradient, engine, output.gradient().get_data_handle());
    const dnnl::primitive_attr attr = attributes();

    const inner_product_forward::primitive_desc forward(
        {dnnl::prop_kind::forward_training, in, weights, bias, out}, attr, engine);
    set_forward<inner_product_forward>(forward, input_.flat, output_value);
    set_backward_weights<inner_product_backward_weights>(
        {{in, weights_gradient, bias, out_gradient}, attr, engine, forward}, input_.flat,
        output_gradient);
    if (!input.has_gradient()) return;
    input_gradient_.emplace(input, input.gradient(), context);
    set_backward_data<inner_product_backward_data>(
        {{in, weights, out_gradient}, attr, engine, forward}, output_gradient,
        input_gradient_->flat);
  }

  Status forward(Mode mode) override {
    if (!input_.flatten.empty()) PHUB_RETURN_IF_ERROR(input_.flatten.run(context_));
    return WeightedOp::forward(mode);
  }

  Status backward() override {
    PHUB_RETURN_IF_ERROR(WeightedOp::backward());
    if (!input_gradient_ || input_gradient_->unflatten.empty()) return {};
    return input_gradient_->unflatten.run(context_);
  }

 private:
  static Memory::desc weights_desc(const OnednnTensor& input, const OnednnTensor& output,
                                   Memory::data_type type) {
    return {{output.shape().channels, static_cast<Memory::dim>(input.shape().elements())},
            type,
            Tag::oi};
  }

  static Memory::desc bias_desc(const InnerProduct& layer) {
    return layer.bias ? Memory::desc({layer.outputs}, kFloat, Tag::a) : Memory::desc();
  }

  Flattening input_;
  std::optional<Flattening> input_gradient_;
};

}  // namespace

std::unique_ptr<Op> make_inner_product(const InnerProduct& layer, OnednnTensor& input,
                                       OnednnTensor& output, Context& context) {
  return std::make_unique<InnerProductOp>(layer, input, output, context);
}

}  // namespace phub::nn::onednn
