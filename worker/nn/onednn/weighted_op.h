// An op with a weight and maybe a bias: what convolution and inner product have in common.
//
// Functions throw dnnl::error (see primitives.h).
#pragma once

#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "worker/nn/onednn/way_choice.h"

namespace phub::nn::onednn {

enum class WeightedPass { kForward, kData, kWeights };

inline std::string name_of(WeightedPass pass) {
  if (pass == WeightedPass::kForward) return "forward";
  return pass == WeightedPass::kData ? "data gradient" : "weights gradient";
}

// What the passes of one layer read and write.
struct WeightedMemory {
  dnnl::memory in, out, in_gradient, out_gradient;
};

// What the descriptors of all passes are made of, as oneDNN is asked in one layout.
struct WeightedDescs {
  dnnl::memory::desc in, out, out_gradient, weights, weights_gradient;
  dnnl::memory::desc plain_weights, bias;  // as they are exchanged; zero: there is no bias

  std::vector<dnnl::memory::desc> parameters() const {
    if (bias.is_zero()) return {plain_weights};
    return {plain_weights, bias};
  }
};

// A layer's operations as oneDNN has them.
template <typename Forward, typename Data, typename Weights>
struct WeightedOperations {
  typename Forward::desc forward;
  typename Data::desc data;
  typename Weights::desc weights;
};

// Adds oneDNN's implementations of a pass in one layout.
template <typename Forward, typename Data, typename Weights>
void add_weighted(WeightedPass pass, const WeightedOperations<Forward, Data, Weights>& operations,
                  const WeightedDescs& d, const WeightedMemory& memory, const AskedLayout& layout,
                  const OnednnContext& context, std::vector<WayPlan>& plans) {
  using Arguments = LibraryWay::Arguments;
  const auto with_bias = [&](LibraryWay::Parameter weights, int bias) {
    std::vector<LibraryWay::Parameter> all = {std::move(weights)};
    if (!d.bias.is_zero()) all.push_back({bias, d.bias, d.bias});
    return all;
  };
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  const typename Forward::primitive_desc hint(operations.forward, attributes, context.engine, true);
  if (!hint) return;
  if (pass == WeightedPass::kForward) {
    const auto arguments = [&](const auto& desc) {
      return Arguments{.read = {{DNNL_ARG_SRC, memory.in, desc.src_desc()}},
                       .written = {{DNNL_ARG_DST, memory.out, desc.dst_desc()}},
                       .sources = with_bias(
                           {DNNL_ARG_WEIGHTS, d.plain_weights, desc.weights_desc()}, DNNL_ARG_BIAS),
                       .sinks = {},
                       .scratchpad = desc.scratchpad_desc()};
    };
    return add_library<Forward>(hint, layout, arguments, context, plans);
  }
  if (pass == WeightedPass::kData) {
    const auto arguments = [&](const auto& desc) {
      return Arguments{.read = {{DNNL_ARG_DIFF_DST, memory.out_gradient, desc.diff_dst_desc()}},
                       .written = {{DNNL_ARG_DIFF_SRC, memory.in_gradient, desc.diff_src_desc()}},
                       .sources = {{DNNL_ARG_WEIGHTS, d.plain_weights, desc.weights_desc()}},
                       .sinks = {},
                       .scratchpad = desc.scratchpad_desc()};
    };
    return add_library<Data>({operations.data, attributes, context.engine, hint, true}, layout,
                             arguments, context, plans);
  }
  const auto arguments = [&](const auto& desc) {
    return Arguments{
        .read = {{DNNL_ARG_SRC, memory.in, desc.src_desc()},
                 {DNNL_ARG_DIFF_DST, memory.out_gradient, desc.diff_dst_desc()}},
        .written = {},
        .sources = {},
        .sinks = with_bias({DNNL_ARG_DIFF_WEIGHTS, d.plain_weights, desc.diff_weights_desc()},
                           DNNL_ARG_DIFF_BIAS),
        .scratchpad = desc.scratchpad_desc()};
  };
  add_library<Weights>({operations.weights, attributes, context.engine, hint, true}, layout,
                       arguments, context, plans);
}

// How an op's passes are computed.
struct Passes {
  std::unique_ptr<ComputeWay> forward;
  std::unique_ptr<ComputeWay> weights;  // their gradient, and the bias'
  std::unique_ptr<ComputeWay> data;     // the input's; null where it has none
};

class WeightedOp : public Op {
 public:
  WeightedOp(Passes passes, OnednnContext& context)
      : context_(context), passes_(std::move(passes)) {
    if (passes_.data == nullptr) return;
    // Forward's copy of the weights is still good where the layouts agree.
    const BoundArray& copy = *passes_.forward->weights();
    if (passes_.data->weights()->memory().get_desc() == copy.memory().get_desc()) {
      passes_.data->weights()->follow(copy);
    }
  }

  Status bind(std::span<const Binding> bindings) override {
    passes_.forward->bind(bindings);
    passes_.weights->bind(bindings);
    if (passes_.data != nullptr) passes_.data->bind(bindings);
    return {};
  }

  Status forward(Mode) override { return passes_.forward->run(context_); }

  Status backward() override {
    if (passes_.data != nullptr) PHUB_RETURN_IF_ERROR(passes_.data->run(context_));
    return passes_.weights->run(context_);
  }

 protected:
  OnednnContext& context() { return context_; }

 private:
  OnednnContext& context_;
  Passes passes_;
};

}  // namespace phub::nn::onednn
