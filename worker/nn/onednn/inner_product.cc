#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "worker/nn/onednn/layers.h"
#include "worker/nn/onednn/way_choice.h"
#include "worker/nn/onednn/weighted_op.h"

namespace phub::nn::onednn {
namespace {

using Memory = dnnl::memory;
using Tag = dnnl::memory::format_tag;

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

// Asked for in the exchange's layout, [output][input], weights are not copied in fp32, and a fully
// connected layer has most of a network's parameters; in blocked ones products are faster, and
// weights are reordered.
WeightedDescs descs_of(const ProductTask& task, bool any_layout) {
  constexpr auto kFloat = Memory::data_type::f32;
  const Memory::desc in = task.input.flat.get_desc();
  const Memory::desc out = rows_desc(task.output, task.output.value());
  const Memory::dims dims = {out.dims()[1], in.dims()[1]};
  const Tag tag = any_layout ? Tag::any : Tag::oi;
  WeightedDescs descs{.in = in,
                      .out = out,
                      .out_gradient = rows_desc(task.output, task.output.gradient()),
                      .weights = {dims, dnnl_type(task.context.type), tag},
                      .weights_gradient = {dims, kFloat, tag},
                      .plain_weights = {dims, kFloat, Tag::oi},
                      .bias = {}};
  if (task.layer.bias) descs.bias = {{dims[0]}, kFloat, Tag::a};
  return descs;
}

void add_implementations(WeightedPass pass, const ProductTask& task, bool any_layout,
                         std::vector<WayPlan>& plans) {
  const WeightedDescs d = descs_of(task, any_layout);
  const WeightedOperations<dnnl::inner_product_forward, dnnl::inner_product_backward_data,
                           dnnl::inner_product_backward_weights>
      operations{{dnnl::prop_kind::forward_training, d.in, d.weights, d.bias, d.out},
                 {d.in, d.weights, d.out_gradient},
                 {d.in, d.weights_gradient, d.bias, d.out_gradient}};
  const WeightedMemory memory{task.input.flat, task.rows(task.output.value()),
                              task.input_gradient != nullptr ? task.input_gradient->flat : Memory(),
                              task.rows(task.output.gradient())};
  add_weighted(pass, operations, d, memory, {any_layout ? "any" : "oi", any_layout}, task.context,
               plans);
}

std::string operation_of(WeightedPass pass, const ProductTask& task, const WeightedDescs& d) {
  return name_of(pass) + " " + std::string(phub::name_of(task.context.type)) + " " +
         std::to_string(d.in.dims()[0]) + " x " + std::to_string(d.in.dims()[1]) + " to " +
         std::to_string(d.out.dims()[1]) + (task.layer.bias ? ", bias" : "");
}

std::unique_ptr<ComputeWay> choose_way(WeightedPass pass, const ProductTask& task) {
  std::vector<WayPlan> plans;
  for (const bool any_layout : {false, true}) add_implementations(pass, task, any_layout, plans);
  const WeightedDescs d = descs_of(task, false);
  return choose_way(operation_of(pass, task, d), std::move(plans), d.parameters(), task.context);
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

std::unique_ptr<Op> make(const InnerProduct& layer, const OpSite& site) {
  OnednnTensor& input = site.input();
  OnednnTensor& output = site.output;
  OnednnContext& context = site.context;
  output.widen_output(context);
  Flattenings flattenings{Flattening(input, input.value(), context), {}};
  if (input.has_gradient()) flattenings.gradient.emplace(input, input.gradient(), context);
  const ProductTask task{layer, output, flattenings.input,
                         flattenings.gradient ? &*flattenings.gradient : nullptr, context};
  Passes passes{.forward = choose_way(WeightedPass::kForward, task),
                .weights = choose_way(WeightedPass::kWeights, task),
                .data = nullptr};
  if (task.input_gradient != nullptr) passes.data = choose_way(WeightedPass::kData, task);
  return std::make_unique<InnerProductOp>(std::move(passes), std::move(flattenings), context);
}

}  // namespace phub::nn::onednn
