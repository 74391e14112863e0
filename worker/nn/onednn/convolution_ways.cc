#include "worker/nn/onednn/convolution_ways.h"

#include <utility>

#include "worker/nn/onednn/weight_gradient.h"

namespace phub::nn::onednn {
namespace {

using dnnl::convolution_backward_data;
using dnnl::convolution_backward_weights;
using dnnl::convolution_forward;
using Memory = dnnl::memory;
using Tag = Memory::format_tag;

constexpr auto kDirect = dnnl::algorithm::convolution_direct;

// Groups, if there are some, come first: the plain layout is PyTorch's all the same.
Memory::dims weight_dims(const ConvolutionTask& task) {
  const auto& [layer, input, output, context] = task;
  const Extent& kernel = layer.window.kernel;
  if (layer.groups == 1) {
    return {layer.channels, input.shape().channels, kernel.height, kernel.width};
  }
  return {layer.groups, layer.channels / layer.groups, input.shape().channels / layer.groups,
          kernel.height, kernel.width};
}

// What the descriptors of all passes are made of, for images in one layout.
struct Descs {
  Descs(const ConvolutionTask& task, bool any_layout) {
    const Window& window = task.layer.window;
    const auto image = [&](const OnednnTensor& tensor) {
      const Memory::desc nhwc = tensor.desc();
      return any_layout ? Memory::desc(nhwc.dims(), nhwc.data_type(), Tag::any) : nhwc;
    };
    const Memory::dims dims = weight_dims(task);
    constexpr auto kFloat = Memory::data_type::f32;
    in = image(task.input);
    out = image(task.output);
    weights = {dims, dnnl_type(task.context.type), Tag::any};
    weights_gradient = {dims, kFloat, Tag::any};
    plain_weights = {dims, kFloat, task.layer.groups == 1 ? Tag::oihw : Tag::goihw};
    if (task.layer.bias) bias = {{task.layer.channels}, kFloat, Tag::a};
    strides = {window.stride.height, window.stride.width};
    padding = {window.padding.height, window.padding.width};
    attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  }

  Memory::desc in, out, weights, weights_gradient, plain_weights, bias;
  Memory::dims strides, padding;
  dnnl::primitive_attr attributes;
};

using Parameters = std::vector<LibraryWay::Parameter>;

Parameters parameters_of(const Descs& d, LibraryWay::Parameter weights,
                         LibraryWay::Parameter bias) {
  Parameters all = {std::move(weights)};
  if (!d.bias.is_zero()) all.push_back(std::move(bias));
  return all;
}

LibraryWay::Arguments arguments_of(const convolution_forward::primitive_desc& desc, const Descs& d,
                                   const ConvolutionTask& task) {
  return {.read = {{DNNL_ARG_SRC, task.input.value(), desc.src_desc()}},
          .written = {{DNNL_ARG_DST, task.output.value(), desc.dst_desc()}},
          .sources = parameters_of(d, {DNNL_ARG_WEIGHTS, d.plain_weights, desc.weights_desc()},
                                   {DNNL_ARG_BIAS, d.bias, desc.bias_desc()}),
          .sinks = {},
          .scratchpad = desc.scratchpad_desc()};
}

LibraryWay::Arguments arguments_of(const convolution_backward_data::primitive_desc& desc,
                                   const Descs& d, const ConvolutionTask& task) {
  return {.read = {{DNNL_ARG_DIFF_DST, task.output.gradient(), desc.diff_dst_desc()}},
          .written = {{DNNL_ARG_DIFF_SRC, task.input.gradient(), desc.diff_src_desc()}},
          .sources = {{DNNL_ARG_WEIGHTS, d.plain_weights, desc.weights_desc()}},
          .sinks = {},
          .scratchpad = desc.scratchpad_desc()};
}

LibraryWay::Arguments arguments_of(const convolution_backward_weights::primitive_desc& desc,
                                   const Descs& d, const ConvolutionTask& task) {
  return {
      .read = {{DNNL_ARG_SRC, task.input.value(), desc.src_desc()},
               {DNNL_ARG_DIFF_DST, task.output.gradient(), desc.diff_dst_desc()}},
      .written = {},
      .sources = {},
      .sinks = parameters_of(d, {DNNL_ARG_DIFF_WEIGHTS, d.plain_weights, desc.diff_weights_desc()},
                             {DNNL_ARG_DIFF_BIAS, d.bias, desc.diff_bias_desc()}),
      .scratchpad = desc.scratchpad_desc()};
}

// The images of one layout: NHWC, or what each implementation likes best.
void add_implementations(ConvolutionPass pass, const ConvolutionTask& task, bool any_layout,
                         std::vector<WayPlan>& plans) {
  const Descs d(task, any_layout);
  const AskedLayout layout{any_layout ? "any" : "nhwc", any_layout};
  const dnnl::engine& engine = task.context.engine;
  const auto arguments = [&](const auto& desc) { return arguments_of(desc, d, task); };
  const convolution_forward::desc forward(dnnl::prop_kind::forward_training, kDirect, d.in,
                                          d.weights, d.bias, d.out, d.strides, d.padding,
                                          d.padding);
  const convolution_forward::primitive_desc hint(forward, d.attributes, engine, true);
  if (!hint) return;
  if (pass == ConvolutionPass::kForward) {
    return add_library<convolution_forward>(hint, layout, arguments, task.context, plans);
  }
  if (pass == ConvolutionPass::kData) {
    const convolution_backward_data::desc data(kDirect, d.in, d.weights, d.out, d.strides,
                                               d.padding, d.padding);
    return add_library<convolution_backward_data>({data, d.attributes, engine, hint, true}, layout,
                                                  arguments, task.context, plans);
  }
  const convolution_backward_weights::desc weights(kDirect, d.in, d.weights_gradient, d.bias, d.out,
                                                   d.strides, d.padding, d.padding);
  add_library<convolution_backward_weights>({weights, d.attributes, engine, hint, true}, layout,
                                            arguments, task.context, plans);
}

// This project's kernel: no layouts, no reorders.
class OwnWay : public ComputeWay {
 public:
  explicit OwnWay(std::unique_ptr<WeightGradient> kernel) : kernel_(std::move(kernel)) {}

  void bind(std::span<const Binding> bindings) override { gradient_ = bindings[0].gradient; }
  Status run(const OnednnContext&) override {
    kernel_->run(gradient_.data());
    return {};
  }

 private:
  std::unique_ptr<WeightGradient> kernel_;
  std::span<float> gradient_;
};

void add_own(const ConvolutionTask& task, std::vector<WayPlan>& plans) {
  const auto& [layer, input, output, context] = task;
  if (!WeightGradient::exists(layer, input, output, context)) return;
  WayPlan plan;
  plan.kernel.name = "own";
  plan.kernel.is_own = true;
  plan.make = [task](OpScratch&) -> std::unique_ptr<ComputeWay> {
    return std::make_unique<OwnWay>(
        WeightGradient::create(task.layer, task.input, task.output, task.context));
  };
  plans.push_back(std::move(plan));
}

std::string extent(const Extent& e) {
  return std::to_string(e.height) + "x" + std::to_string(e.width);
}

std::string image(const Shape& s) {
  return std::to_string(s.channels) + "x" + extent({s.height, s.width});
}

std::string_view name_of_pass(ConvolutionPass pass) {
  if (pass == ConvolutionPass::kForward) return "forward";
  return pass == ConvolutionPass::kData ? "data gradient" : "weights gradient";
}

// What a time is good for, beside the machine and the threads.
std::string operation_of(ConvolutionPass pass, const ConvolutionTask& task) {
  const auto& [layer, input, output, context] = task;
  return std::string(name_of_pass(pass)) + " " + std::string(name_of(context.type)) + " " +
         std::to_string(input.batch()) + " x " + image(input.shape()) + " to " +
         image(output.shape()) + ", kernel " + extent(layer.window.kernel) + ", stride " +
         extent(layer.window.stride) + ", padding " + extent(layer.window.padding) + ", groups " +
         std::to_string(layer.groups) + (layer.bias ? ", bias" : "");
}

}  // namespace

std::unique_ptr<ComputeWay> choose_way(ConvolutionPass pass, const ConvolutionTask& task) {
  std::vector<WayPlan> plans;
  for (const bool any_layout : {false, true}) add_implementations(pass, task, any_layout, plans);
  if (pass == ConvolutionPass::kWeights) add_own(task, plans);
  const Descs d(task, false);
  std::vector<Memory::desc> parameters = {d.plain_weights};
  if (!d.bias.is_zero()) parameters.push_back(d.bias);
  return choose_way(operation_of(pass, task), std::move(plans), parameters, task.context);
}

}  // namespace phub::nn::onednn
