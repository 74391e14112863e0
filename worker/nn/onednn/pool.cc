#include <algorithm>

#include "worker/nn/onednn/layers.h"

namespace phub::nn::onednn {
namespace {

using Memory = dnnl::memory;

dnnl::algorithm algorithm_of(const Pool& layer) {
  if (layer.kind == PoolKind::kMax) return dnnl::algorithm::pooling_max;
  return layer.count_padding ? dnnl::algorithm::pooling_avg_include_padding
                             : dnnl::algorithm::pooling_avg_exclude_padding;
}

// How far the last windows may reach over the end: further than the padding with Pool::ceil.
Memory::dim padding_at_end(std::uint32_t input, std::uint32_t windows, std::uint32_t kernel,
                           std::uint32_t stride, std::uint32_t padding) {
  const Memory::dim reach = Memory::dim{windows - 1} * stride + kernel - padding - input;
  return std::max<Memory::dim>(reach, padding);
}

class PoolOp : public Op {
 public:
  PoolOp(const Pool& layer, OnednnTensor& input, OnednnTensor& output, OnednnContext& context)
      : context_(context) {
    const auto& [kernel_size, stride, pad] = layer.window;
    const Shape& in = input.shape();
    const Shape& out = output.shape();
    const auto algorithm = algorithm_of(layer);
    const Memory::dims strides = {stride.height, stride.width};
    const Memory::dims kernel = {kernel_size.height, kernel_size.width};
    const Memory::dims padding = {pad.height, pad.width};
    const Memory::dims padding_end = {
        padding_at_end(in.height, out.height, kernel_size.height, stride.height, pad.height),
        padding_at_end(in.width, out.width, kernel_size.width, stride.width, pad.width)};
    const Memory::desc input_desc = input.desc();
    const Memory::desc output_desc = output.desc();
    dnnl::primitive_attr attr;
    attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    const dnnl::pooling_forward::primitive_desc forward(
        {dnnl::prop_kind::forward_training, algorithm, input_desc, output_desc, strides, kernel,
         padding, padding_end},
        attr, context.engine);
    // Which pixel was the largest; averages have no workspace.
    Memory workspace;
    if (layer.kind == PoolKind::kMax) workspace = Memory(forward.workspace_desc(), context.engine);
    forward_ =
        PrimitiveCall(dnnl::pooling_forward(forward),
                      {{DNNL_ARG_SRC, input.value()},
                       {DNNL_ARG_DST, output.value()},
                       {DNNL_ARG_WORKSPACE, workspace},
                       {DNNL_ARG_SCRATCHPAD,
                        context.room.scratchpad.view(forward.scratchpad_desc(), context.engine)}});
    const Memory::desc stored = output.value().get_desc();
    if (stored != output_desc) forward_ = mean_of(input, output, stored);
    if (!input.has_gradient()) return;
    const dnnl::pooling_backward::primitive_desc backward(
        {algorithm, input_desc, output_desc, strides, kernel, padding, padding_end}, attr,
        context.engine, forward);
    backward_ =
        PrimitiveCall(dnnl::pooling_backward(backward),
                      {{DNNL_ARG_DIFF_DST, output.gradient()},
                       {DNNL_ARG_DIFF_SRC, input.gradient()},
                       {DNNL_ARG_WORKSPACE, workspace},
                       {DNNL_ARG_SCRATCHPAD,
                        context.room.scratchpad.view(backward.scratchpad_desc(), context.engine)}});
  }

  Status forward(Mode) override { return forward_.run(context_); }
  Status backward() override { return backward_.empty() ? Status() : backward_.run(context_); }

 private:
  // The output is wider than the input, which pooling cannot write. REQUIRES: an average over the
  // whole image.
  PrimitiveCall mean_of(const OnednnTensor& input, const OnednnTensor& output,
                        const Memory::desc& stored) {
    dnnl::primitive_attr attr;
    attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    const dnnl::reduction::primitive_desc mean(
        {dnnl::algorithm::reduction_mean, input.desc(), stored, 0.0F, 0.0F}, attr, context_.engine);
    return PrimitiveCall(dnnl::reduction(mean),
                         {{DNNL_ARG_SRC, input.value()},
                          {DNNL_ARG_DST, output.value()},
                          {DNNL_ARG_SCRATCHPAD, context_.room.scratchpad.view(
                                                    mean.scratchpad_desc(), context_.engine)}});
  }

  OnednnContext& context_;
  PrimitiveCall forward_, backward_;
};

}  // namespace

std::unique_ptr<Op> make(const Pool& layer, const OpSite& site) {
  return std::make_unique<PoolOp>(layer, site.input(), site.output, site.context);
}

std::unique_ptr<Op> make(const GlobalAveragePool&, const OpSite& site) {
  site.output.widen_output(site.context);
  const Shape& shape = site.input().shape();
  return make(Pool{.kind = PoolKind::kAverage, .window = {.kernel = {shape.height, shape.width}}},
              site);
}

}  // namespace phub::nn::onednn
