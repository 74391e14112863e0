// Constructors of the oneDNN ops, one for each layer kind. They throw dnnl::error (see
// primitives.h). The context and the tensors outlive the op.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "worker/nn/onednn/primitives.h"

namespace phub::nn::onednn {

std::unique_ptr<Op> make_convolution(const Convolution& layer, OnednnTensor& input,
                                     OnednnTensor& output, Context& context);
std::unique_ptr<Op> make_inner_product(OnednnTensor& input, OnednnTensor& output, Context& context);
std::unique_ptr<Op> make_pool(const Pool& layer, OnednnTensor& input, OnednnTensor& output,
                              Context& context);
std::unique_ptr<Op> make_relu(OnednnTensor& input, OnednnTensor& output, Context& context);
std::unique_ptr<Op> make_batch_norm(const std::string& name, const BatchNorm& layer,
                                    OnednnTensor& input, OnednnTensor& output, Context& context);

struct AddInputs {
  OnednnTensor& first;
  OnednnTensor& second;
};
std::unique_ptr<Op> make_add(const Add& layer, const AddInputs& inputs, OnednnTensor& output,
                             Context& context);
std::unique_ptr<Op> make_concat(std::span<OnednnTensor* const> inputs, OnednnTensor& output);

struct DropoutTensors {
  OnednnTensor& input;
  OnednnTensor& output;
};
// `noise` is read at each forward and outlives the op.
std::unique_ptr<Op> make_dropout(const std::string& name, const Dropout& layer,
                                 const DropoutTensors& tensors, const std::uint64_t& noise);
std::unique_ptr<Op> make_subsample(const Subsample& layer, OnednnTensor& input,
                                   OnednnTensor& output);
// Backward only: tensor's gradient += view's.
std::unique_ptr<Op> make_accumulate(OnednnTensor& tensor, OnednnTensor& view, Context& context);

}  // namespace phub::nn::onednn
