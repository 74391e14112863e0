#include "worker/nn/onednn/layers.h"
#include "worker/nn/onednn/weight_gradient.h"
#include "worker/nn/onednn/weighted_op.h"

namespace phub::nn::onednn {
namespace {

using dnnl::convolution_backward_data;
using dnnl::convolution_backward_weights;
using dnnl::convolution_forward;
using Memory = dnnl::memory;

constexpr auto kDirect = dnnl::algorithm::convolution_direct;

// Groups, if there are some, come first: the plain layout is PyTorch's all the same.
Memory::dims weight_dims(const Convolution& layer, const OnednnTensor& input) {
  const Extent& kernel = layer.window.kernel;
  if (layer.groups == 1) {
    return {layer.channels, input.shape().channels, kernel.height, kernel.width};
  }
  return {layer.groups, layer.channels / layer.groups, input.shape().channels / layer.groups,
          kernel.height, kernel.width};
}

WeightDescs weight_descs(const Convolution& layer, const OnednnTensor& input) {
  constexpr auto kFloat = Memory::data_type::f32;
  const auto plain = layer.groups == 1 ? Memory::format_tag::oihw : Memory::format_tag::goihw;
  WeightDescs descs{.weights = {weight_dims(layer, input), kFloat, plain}, .bias = {}};
  if (layer.bias) descs.bias = {{layer.channels}, kFloat, Memory::format_tag::a};
  return descs;
}

// Only AVX-512's kernels take the blocked layout, and none for groups: all else would be computed
// by oneDNN's scalar reference, hundreds of times slower. In fp32 they gain nothing.
bool has_blocked_kernels(const Convolution& layer, DataType type) {
  constexpr auto kAvx512 = static_cast<unsigned>(dnnl::cpu_isa::avx512_core);
  const auto isa = static_cast<unsigned>(dnnl::get_effective_cpu_isa());
  return type == DataType::kBfloat16 && layer.groups == 1 && (isa & kAvx512) == kAvx512;
}

// The bytes of an image of 16 channels are the same in NHWC and in oneDNN's blocked layout, for
// which its kernels in bf16 are faster (by a fifth forward and by the weights, or alike). It takes
// a layer's images in one layout only.
class Images {
 public:
  Images(const Convolution& layer, const OnednnTensor& input, const OnednnTensor& output,
         const Context& context)
      : context_(context),
        tag_(has_blocked_kernels(layer, context.type) && input.shape().channels == 16 &&
                     output.shape().channels == 16
                 ? Memory::format_tag::nChw16c
                 : Memory::format_tag::nhwc) {}

  Memory operator()(const Memory& memory) const {
    const Memory::desc desc = memory.get_desc();
    return Memory({desc.dims(), desc.data_type(), tag_}, context_.engine, memory.get_data_handle());
  }

 private:
  const Context& context_;
  Memory::format_tag tag_;
};

class ConvolutionOp : public WeightedOp {
 public:
  ConvolutionOp(const Convolution& layer, OnednnTensor& input, OnednnTensor& output,
                Context& context)
      : WeightedOp(weight_descs(layer, input), context) {
    const Images images(layer, input, output, context);
    const Memory input_value = images(input.value());
    const Memory output_value = images(output.value());
    const Memory output_gradient = images(output.gradient());
    const Memory::desc in = input_value.get_desc();
    const Memory::desc out = output_value.get_desc();
    const Memory::dims dims = weight_dims(layer, input);
    const Memory::desc weights(dims, dnnl_type(context.type), Memory::format_tag::any);
    const Memory::desc weights_gradient(dims, Memory::data_type::f32, Memory::format_tag::any);
    const Memory::desc bias = weight_descs(layer, input).bias;
    const Memory::dims strides = {layer.window.stride.height, layer.window.stride.width};
    const Memory::dims padding = {layer.window.padding.height, layer.window.padding.width};
    const dnnl::engine& engine = context.engine;
    const dnnl::primitive_attr attr = attributes();

    const convolution_forward::primitive_desc forward(
        {dnnl::prop_kind::forward_training, kDirect, in, weights, bias, out, strides, padding,
         padding},
        attr, engine);
    set_forward<convolution_forward>(forward, input_value, output_value);
    own_gradient_ = WeightGradient::create(layer, input, output, context);
    if (!own_gradient_) {
      set_backward_weights<convolution_backward_weights>(
          {{kDirect, in, weights_gradient, bias, out, strides, padding, padding},
           attr,
           engine,
           forward},
          input_value, output_gradient);
    }
    if (!input.has_gradient()) return;
    set_backward_data<convolution_backward_data>(
        {{kDirect, in, weights, out, strides, padding, padding}, attr, engine, forward},
        output_gradient, images(input.gradient()));
  }

  Status bind(std::span<const Binding> bindings) override {
    gradient_ = bindings[0].gradient;
    return WeightedOp::bind(bindings);
  }

 private:
  Status backward_weights() override {
    if (!own_gradient_) return WeightedOp::backward_weights();
    own_gradient_->run(gradient_.data());
    return {};
  }

  std::unique_ptr<WeightGradient> own_gradient_;  // or null: oneDNN's
  std::span<float> gradient_;
};

}  // namespace

std::unique_ptr<Op> make_convolution(const Convolution& layer, OnednnTensor& input,
                                     OnednnTensor& output, Context& context) {
  return std::make_unique<ConvolutionOp>(layer, input, output, context);
}

}  // namespace phub::nn::onednn
