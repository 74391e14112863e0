#include "common/base/check.h"
#include "worker/nn/onednn/layers.h"

namespace phub::nn::onednn {
namespace {

using Memory = dnnl::memory;

class PoolOp : public Op {
 public:
  PoolOp(const Pool& layer, OnednnTensor& input, OnednnTensor& output, Context& context)
      : context_(context) {
    const auto algorithm = layer.kind == PoolKind::kMax
                               ? dnnl::algorithm::pooling_max
                               : dnnl::algorithm::pooling_avg_exclude_padding;
    const Memory::dims strides = {layer.window.stride, layer.window.stride};
    const Memory::dims kernel = {layer.window.kernel, layer.window.kernel};
    const Memory::dims padding = {layer.window.padding, layer.window.padding};
    const Memory::desc input_desc = image_desc(input.batch(), input.shape());
    const Memory::desc output_desc = image_desc(output.batch(), output.shape());
    dnnl::primitive_attr attr;
    attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    const dnnl::pooling_forward::primitive_desc forward(
        {dnnl::prop_kind::forward_training, algorithm, input_desc, output_desc, strides, kernel,
         padding, padding},
        attr, context.engine);
    // Which pixel was the largest; averages have no workspace.
    Memory workspace;
    if (layer.kind == PoolKind::kMax) workspace = Memory(forward.workspace_desc(), context.engine);
    forward_ = Call(dnnl::pooling_forward(forward),
                    {{DNNL_ARG_SRC, input.value()},
                     {DNNL_ARG_DST, output.value()},
                     {DNNL_ARG_WORKSPACE, workspace},
                     {DNNL_ARG_SCRATCHPAD,
                      context.scratchpad.view(forward.scratchpad_desc(), context.engine)}});
    if (!input.has_gradient()) return;
    const dnnl::pooling_backward::primitive_desc backward(
        {algorithm, input_desc, output_desc, strides, kernel, padding, padding}, attr,
        context.engine, forward);
    backward_ = Call(dnnl::pooling_backward(backward),
                     {{DNNL_ARG_DIFF_DST, output.gradient()},
                      {DNNL_ARG_DIFF_SRC, input.gradient()},
                      {DNNL_ARG_WORKSPACE, workspace},
                      {DNNL_ARG_SCRATCHPAD,
                       context.scratchpad.view(backward.scratchpad_desc(), context.engine)}});
  }

  Status bind(std::span<const Binding> bindings) override {
    PHUB_CHECK(bindings.empty(), "pooling has no parameters");
    return {};
  }
  Status forward(Mode) override { return forward_.run(context_); }
  Status backward() override { return backward_.empty() ? Status() : backward_.run(context_); }

 private:
  Context& context_;
  Call forward_, backward_;
};

}  // namespace

std::unique_ptr<Op> make_pool(const Pool& layer, OnednnTensor& input, OnednnTensor& output,
                              Context& context) {
  return std::make_unique<PoolOp>(layer, input, output, context);
}

}  // namespace phub::nn::onednn
