// The ways to compute a convolution's passes: oneDNN's implementations for images in NHWC and in
// the layouts it likes best, and this project's.
#include <utility>

#include "worker/nn/onednn/layers.h"
#include "worker/nn/onednn/way_choice.h"
#include "worker/nn/onednn/weight_gradient.h"
#include "worker/nn/onednn/weighted_op.h"

namespace phub::nn::onednn {
namespace {

using Memory = dnnl::memory;
using Tag = Memory::format_tag;

constexpr auto kDirect = dnnl::algorithm::convolution_direct;

struct ConvolutionTask {
  const Convolution& layer;
  OnednnTensor& input;
  OnednnTensor& output;
  OnednnContext& context;
};

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

// For images in NHWC, or in what each implementation likes best.
WeightedDescs descs_of(const ConvolutionTask& task, bool any_layout) {
  const auto image = [&](const OnednnTensor& tensor) {
    const Memory::desc nhwc = tensor.desc();
    return any_layout ? Memory::desc(nhwc.dims(), nhwc.data_type(), Tag::any) : nhwc;
  };
  const Memory::dims dims = weight_dims(task);
  constexpr auto kFloat = Memory::data_type::f32;
  WeightedDescs descs{
      .in = image(task.input),
      .out = image(task.output),
      .out_gradient = image(task.output),
      .weights = {dims, dnnl_type(task.context.type), Tag::any},
      .weights_gradient = {dims, kFloat, Tag::any},
      .plain_weights = {dims, kFloat, task.layer.groups == 1 ? Tag::oihw : Tag::goihw},
      .bias = {}};
  if (task.layer.bias) descs.bias = {{task.layer.channels}, kFloat, Tag::a};
  return descs;
}

void add_implementations(WeightedPass pass, const ConvolutionTask& task, bool any_layout,
                         std::vector<WayPlan>& plans) {
  const auto& [layer, input, output, context] = task;
  const WeightedDescs d = descs_of(task, any_layout);
  const auto& [kernel, stride, pad] = layer.window;
  const Memory::dims strides = {stride.height, stride.width};
  const Memory::dims padding = {pad.height, pad.width};
  const WeightedOperations<dnnl::convolution_forward, dnnl::convolution_backward_data,
                           dnnl::convolution_backward_weights>
      operations{{dnnl::prop_kind::forward_training, kDirect, d.in, d.weights, d.bias, d.out,
                  strides, padding, padding},
                 {kDirect, d.in, d.weights, d.out, strides, padding, padding},
                 {kDirect, d.in, d.weights_gradient, d.bias, d.out, strides, padding, padding}};
  add_weighted(pass, operations, d,
               {input.value(), output.value(), input.gradient(), output.gradient()},
               {any_layout ? "any" : "nhwc", any_layout}, context, plans);
}

void add_own(const ConvolutionTask& task, std::vector<WayPlan>& plans) {
  const auto& [layer, input, output, context] = task;
  if (!has_own_weight_gradient(layer, input, output, context)) return;
  WayPlan plan;
  plan.kernel.name = "own";
  plan.kernel.is_own = true;
  plan.make = [task](OpScratch&) {
    return make_own_weight_gradient(task.layer, task.input, task.output, task.context);
  };
  plans.push_back(std::move(plan));
}

std::string extent(const Extent& e) {
  return std::to_string(e.height) + "x" + std::to_string(e.width);
}

std::string image(const Shape& s) {
  return std::to_string(s.channels) + "x" + extent({s.height, s.width});
}

// What a time is good for, beside the machine and the threads.
std::string operation_of(WeightedPass pass, const ConvolutionTask& task) {
  const auto& [layer, input, output, context] = task;
  return name_of(pass) + " " + std::string(phub::name_of(context.type)) + " " +
         std::to_string(input.batch()) + " x " + image(input.shape()) + " to " +
         image(output.shape()) + ", kernel " + extent(layer.window.kernel) + ", stride " +
         extent(layer.window.stride) + ", padding " + extent(layer.window.padding) + ", groups " +
         std::to_string(layer.groups) + (layer.bias ? ", bias" : "");
}

// The way that the context's book chooses. kData's needs an input with a gradient. The book knows
// it as "forward bf16 64 x 16x32x32 to 16x32x32, kernel 3x3, stride 1x1, padding 1x1, groups 1".
std::unique_ptr<ComputeWay> choose_way(WeightedPass pass, const ConvolutionTask& task) {
  std::vector<WayPlan> plans;
  for (const bool any_layout : {false, true}) add_implementations(pass, task, any_layout, plans);
  if (pass == WeightedPass::kWeights) add_own(task, plans);
  return choose_way(operation_of(pass, task), std::move(plans), descs_of(task, false).parameters(),
                    task.context);
}

}  // namespace

std::unique_ptr<Op> make(const Convolution& layer, const OpSite& site) {
  const ConvolutionTask task{layer, site.input(), site.output, site.context};
  Passes passes{.forward = choose_way(WeightedPass::kForward, task),
                .weights = choose_way(WeightedPass::kWeights, task),
                .data = nullptr};
  if (task.input.has_gradient()) passes.data = choose_way(WeightedPass::kData, task);
  return std::make_unique<WeightedOp>(std::move(passes), site.context);
}

}  // namespace phub::nn::onednn
