#include "worker/nn/onednn/convolution_ways.h"

#include <algorithm>
#include <chrono>
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

// oneDNN's scalar code, hundreds of times slower: taken where there is nothing else.
bool is_scalar(std::string_view name) { return name.find("ref") != std::string_view::npos; }
// Kernels for processors without AVX2: three to ten times slower on those that have it.
bool is_outdated(std::string_view name) {
  return name.find("sse41") != std::string_view::npos &&
         dnnl::get_effective_cpu_isa() != dnnl::cpu_isa::sse41;
}

struct Found {
  std::vector<WayPlan>& plans;
  std::vector<WayPlan>& scalar;
};

// All implementations that oneDNN has for a pass on images in one layout.
template <typename Primitive>
void add_all(typename Primitive::primitive_desc desc, const Descs& descs, bool any_layout,
             const ConvolutionTask& task, const Found& found) {
  if (!desc) return;
  do {
    const std::string name = desc.impl_info_str();
    const LibraryWay::Arguments arguments = arguments_of(desc, descs, task);
    std::vector<LibraryWay::Image> images = arguments.read;
    if (arguments.written) images.push_back(*arguments.written);
    const bool is_nhwc = std::all_of(images.begin(), images.end(), [](const auto& image) {
      return image.memory.get_desc() == image.wanted;
    });
    if (is_outdated(name) || (any_layout && is_nhwc)) continue;
    const bool is_free = std::all_of(images.begin(), images.end(), [](const auto& image) {
      return same_bytes(image.memory.get_desc(), image.wanted);
    });
    // In bf16 kernels for blocked images are a fifth faster where no image is moved for them.
    const bool is_preferred = any_layout && is_free && task.context.type == DataType::kBfloat16;
    (is_scalar(name) ? found.scalar : found.plans)
        .push_back({{.name = (any_layout ? "any " : "nhwc ") + name,
                     .is_own = false,
                     .is_blocked = any_layout,
                     .is_preferred = is_preferred,
                     .prepare = {}},
                    [desc, arguments, &context = task.context](Room& room) -> std::unique_ptr<Way> {
                      return std::make_unique<LibraryWay>(Primitive(desc), arguments, room,
                                                          context);
                    }});
  } while (desc.next_impl());
}

// oneDNN's iterators keep pointers to the operations' descriptors, which therefore have names here.
void add_library(ConvolutionPass pass, const ConvolutionTask& task, bool any_layout,
                 const Found& found) {
  const Descs d(task, any_layout);
  const dnnl::engine& engine = task.context.engine;
  const convolution_forward::desc forward(dnnl::prop_kind::forward_training, kDirect, d.in,
                                          d.weights, d.bias, d.out, d.strides, d.padding,
                                          d.padding);
  const convolution_forward::primitive_desc hint(forward, d.attributes, engine, true);
  if (!hint) return;
  if (pass == ConvolutionPass::kForward) {
    return add_all<convolution_forward>(hint, d, any_layout, task, found);
  }
  if (pass == ConvolutionPass::kData) {
    const convolution_backward_data::desc data(kDirect, d.in, d.weights, d.out, d.strides,
                                               d.padding, d.padding);
    return add_all<convolution_backward_data>({data, d.attributes, engine, hint, true}, d,
                                              any_layout, task, found);
  }
  const convolution_backward_weights::desc weights(kDirect, d.in, d.weights_gradient, d.bias, d.out,
                                                   d.strides, d.padding, d.padding);
  add_all<convolution_backward_weights>({weights, d.attributes, engine, hint, true}, d, any_layout,
                                        task, found);
}

// This project's kernel: no layouts, no reorders.
class OwnWay : public Way {
 public:
  explicit OwnWay(std::unique_ptr<WeightGradient> kernel) : kernel_(std::move(kernel)) {}

  void bind(std::span<const Binding> bindings) override { gradient_ = bindings[0].gradient; }
  Status run(const Context&) override {
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
  plans.push_back(
      {{.name = "own", .is_own = true, .is_blocked = false, .is_preferred = false, .prepare = {}},
       [task](Room&) -> std::unique_ptr<Way> {
         return std::make_unique<OwnWay>(
             WeightGradient::create(task.layer, task.input, task.output, task.context));
       }});
}

// oneDNN gives different implementations the same name here and there.
void tell_apart(std::vector<WayPlan>& plans) {
  for (auto plan = plans.begin(); plan != plans.end(); ++plan) {
    const auto same = std::count_if(plans.begin(), plan, [&](const WayPlan& other) {
      return other.kernel.name.substr(0, other.kernel.name.find('#')) == plan->kernel.name;
    });
    if (same > 0) plan->kernel.name += "#" + std::to_string(same + 1);
  }
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

// A layer's parameters and their gradients while its ways are measured.
class Bench {
 public:
  explicit Bench(const ConvolutionTask& task) : context_(task.context) {
    const Descs d(task, false);
    add(d.plain_weights);
    if (!d.bias.is_zero()) add(d.bias);
  }

  std::function<Result<double>(std::size_t)> prepare(const WayPlan& plan) {
    const std::shared_ptr<Way> way = plan.make(room_);
    way->bind(bindings_);
    return [way, &context = context_](std::size_t times) -> Result<double> {
      const auto start = std::chrono::steady_clock::now();
      for (std::size_t i = 0; i < times; ++i) PHUB_RETURN_IF_ERROR(way->run(context));
      const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
      return took.count();
    };
  }

 private:
  // Zeros, as the images are before the first step.
  void add(const Memory::desc& desc) {
    const auto floats = [&] {
      const Memory& memory = memories_.emplace_back(desc, context_.engine);
      const std::span values(static_cast<float*>(memory.get_data_handle()),
                             desc.get_size() / sizeof(float));
      std::fill(values.begin(), values.end(), 0.0F);
      return values;
    };
    bindings_.push_back({floats(), floats()});
  }

  Context& context_;
  Room room_;
  std::vector<Memory> memories_;
  std::vector<Binding> bindings_;
};

}  // namespace

std::vector<WayPlan> ways_of(ConvolutionPass pass, const ConvolutionTask& task) {
  std::vector<WayPlan> plans, scalar;
  for (const bool any_layout : {false, true}) {
    add_library(pass, task, any_layout, {plans, scalar});
  }
  if (plans.empty()) plans = std::move(scalar);
  if (plans.empty()) throw dnnl::error(dnnl_unimplemented, "there is no such convolution");
  if (pass == ConvolutionPass::kWeights) add_own(task, plans);
  tell_apart(plans);
  return plans;
}

std::string operation_of(ConvolutionPass pass, const ConvolutionTask& task) {
  const auto& [layer, input, output, context] = task;
  return std::string(name_of_pass(pass)) + " " + std::string(name_of(context.type)) + " " +
         std::to_string(input.batch()) + " x " + image(input.shape()) + " to " +
         image(output.shape()) + ", kernel " + extent(layer.window.kernel) + ", stride " +
         extent(layer.window.stride) + ", padding " + extent(layer.window.padding) + ", groups " +
         std::to_string(layer.groups) + (layer.bias ? ", bias" : "");
}

std::unique_ptr<Way> choose_way(ConvolutionPass pass, const ConvolutionTask& task) {
  const std::vector<WayPlan> plans = ways_of(pass, task);
  const auto bench = std::make_shared<Bench>(task);
  std::vector<Kernel> kernels;
  for (const WayPlan& plan : plans) {
    kernels.push_back(plan.kernel);
    kernels.back().prepare = [&plan, bench] { return bench->prepare(plan); };
  }
  const auto index = task.context.kernels.choose(operation_of(pass, task), kernels);
  if (!index) throw dnnl::error(dnnl_runtime_error, "none of a convolution's implementations runs");
  return plans[*index].make(task.context.room);
}

}  // namespace phub::nn::onednn
