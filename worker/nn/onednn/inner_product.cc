#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "worker/nn/onednn/layers.h"
#include "worker/nn/onednn/way_choice.h"
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
  Flattening(const OnednnTensor& tensor, const Memory& nhwc, const OnednnContext& context) {
    const Shape& shape = tensor.shape();
    const Memory::desc nchw({tensor.batch(), shape.channels, shape.height, shape.width},
                            nhwc.get_desc().data_type(), Tag::nchw);
    const bool one_pixel = shape.height * shape.width == 1;
    const Memory plain = one_pixel ? nhwc : Memory(nchw, context.engine);
    flat = Memory(rows_desc(tensor, nhwc), context.engine, plain.get_data_handle());
    if (one_pixel) return;
    storage = plain;
    flatten =
        PrimitiveCall(dnnl::reorder(nhwc, plain), {{DNNL_ARG_FROM, nhwc}, {DNNL_ARG_TO, plain}});
    unflatten =
        PrimitiveCall(dnnl::reorder(plain, nhwc), {{DNNL_ARG_FROM, plain}, {DNNL_ARG_TO, nhwc}});
  }

  Memory storage;  // owns what flat points to, if the tensor does not
  Memory flat;     // [image][element]
  PrimitiveCall flatten, unflatten;
};

// A layer's product.
struct ProductTask {
  const InnerProduct& layer;
  OnednnTensor& output;
  const Flattening& input;
  const Flattening* input_gradient;  // of kData
  OnednnContext& context;

  Memory rows(const Memory& memory) const {
    return Memory(rows_desc(output, memory), context.engine, memory.get_data_handle());
  }
};

// What the descriptors of all passes are made of. Asked for in the exchange's layout,
// [output][input], weights are not copied in fp32, and a fully connected layer has most of a
// network's parameters; in blocked ones products are faster, and weights are reordered.
struct Descs {
  Descs(const ProductTask& task, bool any_layout)
      : in(task.input.flat.get_desc()),
        out(rows_desc(task.output, task.output.value())),
        out_gradient(rows_desc(task.output, task.output.gradient())) {
    const Memory::dims dims = {out.dims()[1], in.dims()[1]};
    const Tag tag = any_layout ? Tag::any : Tag::oi;
    weights = {dims, dnnl_type(task.context.type), tag};
    weights_gradient = {dims, kFloat, tag};
    plain_weights = {dims, kFloat, Tag::oi};
    if (task.layer.bias) bias = {{dims[0]}, kFloat, Tag::a};
    attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  }

  Memory::desc in, out, out_gradient, weights, weights_gradient, plain_weights, bias;
  dnnl::primitive_attr attributes;
};

enum class ProductPass { kForward, kWeights, kData };

using Parameters = std::vector<LibraryWay::Parameter>;

// The weights', and the bias' if there is one.
Parameters parameters_of(const Descs& d, LibraryWay::Parameter weights, int bias) {
  Parameters all = {std::move(weights)};
  if (!d.bias.is_zero()) all.push_back({bias, d.bias, d.bias});
  return all;
}

LibraryWay::Arguments arguments_of(const inner_product_forward::primitive_desc& desc,
                                   const Descs& d, const ProductTask& task) {
  return {.read = {{DNNL_ARG_SRC, task.input.flat, desc.src_desc()}},
          .written = {{DNNL_ARG_DST, task.rows(task.output.value()), desc.dst_desc()}},
          .sources = parameters_of(d, {DNNL_ARG_WEIGHTS, d.plain_weights, desc.weights_desc()},
                                   DNNL_ARG_BIAS),
          .sinks = {},
          .scratchpad = desc.scratchpad_desc()};
}

LibraryWay::Arguments arguments_of(const inner_product_backward_data::primitive_desc& desc,
                                   const Descs& d, const ProductTask& task) {
  const Memory gradient = task.rows(task.output.gradient());
  return {.read = {{DNNL_ARG_DIFF_DST, gradient, desc.diff_dst_desc()}},
          .written = {{DNNL_ARG_DIFF_SRC, task.input_gradient->flat, desc.diff_src_desc()}},
          .sources = {{DNNL_ARG_WEIGHTS, d.plain_weights, desc.weights_desc()}},
          .sinks = {},
          .scratchpad = desc.scratchpad_desc()};
}

LibraryWay::Arguments arguments_of(const inner_product_backward_weights::primitive_desc& desc,
                                   const Descs& d, const ProductTask& task) {
  const Memory gradient = task.rows(task.output.gradient());
  return {
      .read = {{DNNL_ARG_SRC, task.input.flat, desc.src_desc()},
               {DNNL_ARG_DIFF_DST, gradient, desc.diff_dst_desc()}},
      .written = {},
      .sources = {},
      .sinks = parameters_of(d, {DNNL_ARG_DIFF_WEIGHTS, d.plain_weights, desc.diff_weights_desc()},
                             DNNL_ARG_DIFF_BIAS),
      .scratchpad = desc.scratchpad_desc()};
}

// The implementations for weights in one layout.
void add_implementations(ProductPass pass, const ProductTask& task, const Descs& d,
                         const AskedLayout& layout, std::vector<WayPlan>& plans) {
  const dnnl::engine& engine = task.context.engine;
  const auto arguments = [&](const auto& desc) { return arguments_of(desc, d, task); };
  const inner_product_forward::desc forward(dnnl::prop_kind::forward_training, d.in, d.weights,
                                            d.bias, d.out);
  const inner_product_forward::primitive_desc hint(forward, d.attributes, engine, true);
  if (!hint) return;
  if (pass == ProductPass::kForward) {
    return add_library<inner_product_forward>(hint, layout, arguments, task.context, plans);
  }
  if (pass == ProductPass::kData) {
    const inner_product_backward_data::desc data(d.in, d.weights, d.out_gradient);
    return add_library<inner_product_backward_data>({data, d.attributes, engine, hint, true},
                                                    layout, arguments, task.context, plans);
  }
  const inner_product_backward_weights::desc weights(d.in, d.weights_gradient, d.bias,
                                                     d.out_gradient);
  add_library<inner_product_backward_weights>({weights, d.attributes, engine, hint, true}, layout,
                                              arguments, task.context, plans);
}

std::string operation_of(ProductPass pass, const ProductTask& task, const Descs& d) {
  const char* const name = pass == ProductPass::kForward   ? "forward"
                           : pass == ProductPass::kWeights ? "weights gradient"
                                                           : "data gradient";
  return std::string(name) + " " + std::string(phub::name_of(task.context.type)) + " " +
         std::to_string(d.in.dims()[0]) + " x " + std::to_string(d.in.dims()[1]) + " to " +
         std::to_string(d.out.dims()[1]) + (task.layer.bias ? ", bias" : "");
}

std::unique_ptr<ComputeWay> choose_way(ProductPass pass, const ProductTask& task) {
  std::vector<WayPlan> plans;
  std::vector<Memory::desc> parameters;
  std::string operation;
  for (const bool any_layout : {false, true}) {
    const Descs d(task, any_layout);
    add_implementations(pass, task, d, {any_layout ? "any" : "oi", any_layout}, plans);
    if (any_layout) continue;
    operation = operation_of(pass, task, d);
    parameters = {d.plain_weights};
    if (!d.bias.is_zero()) parameters.push_back(d.bias);
  }
  return choose_way(operation, std::move(plans), parameters, task.context);
}

struct Flattenings {
  Flattening input;
  std::optional<Flattening> gradient;
};

class InnerProductOp : public WeightedOp {
 public:
  InnerProductOp(Passes passes, Flattenings flattenings, OnednnContext& context)
      : WeightedOp(std::move(passes), context), flattenings_(std::move(flattenings)) {}

  Status forward(Mode mode) override {
    const PrimitiveCall& flatten = flattenings_.input.flatten;
    if (!flatten.empty()) PHUB_RETURN_IF_ERROR(flatten.run(context()));
    return WeightedOp::forward(mode);
  }

  Status backward() override {
    PHUB_RETURN_IF_ERROR(WeightedOp::backward());
    if (!flattenings_.gradient || flattenings_.gradient->unflatten.empty()) return {};
    return flattenings_.gradient->unflatten.run(context());
  }

 private:
  Flattenings flattenings_;
};

}  // namespace

std::unique_ptr<Op> make_inner_product(const InnerProduct& layer, OnednnTensor& input,
                                       OnednnTensor& output, OnednnContext& context) {
  output.widen_output(context);
  Flattenings flattenings{Flattening(input, input.value(), context), {}};
  if (input.has_gradient()) flattenings.gradient.emplace(input, input.gradient(), context);
  const ProductTask task{layer, output, flattenings.input,
                         flattenings.gradient ? &*flattenings.gradient : nullptr, context};
  Passes passes{.forward = choose_way(ProductPass::kForward, task),
                .weights = choose_way(ProductPass::kWeights, task),
                .data = nullptr};
  if (task.input_gradient != nullptr) passes.data = choose_way(ProductPass::kData, task);
  return std::make_unique<InnerProductOp>(std::move(passes), std::move(flattenings), context);
}

}  // namespace phub::nn::onednn
