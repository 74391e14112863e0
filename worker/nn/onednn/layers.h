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
                                     OnednnTensor& output, OnednnContext& context);
std::unique_ptr<Op> make_inner_product(const InnerProduct& layer, OnednnTensor& input,
                                       OnednnTensor& output, OnednnContext& context);
std::unique_ptr<Op> make_pool(const Pool& layer, OnednnTensor& input, OnednnTensor& output,
                              OnednnContext& context);
// Of the whole image. Into the network's output it is written in fp32 (see
// OnednnTensor::widen_output).
std::unique_ptr<Op> make_global_average_pool(OnednnTensor& input, OnednnTensor& output,
                                             OnednnContext& context);
std::unique_ptr<Op> make_relu(OnednnTensor& input, OnednnTensor& output, OnednnContext& context);

// A batch normalisation whose output only one Add reads: the Add has it write the sum at once, and
// backward take its sums where the Add's gradient is written. The normalisation's own output is
// then never stored.
class NormInSum {
 public:
  virtual ~NormInSum() = default;
  // After its forward: output = normalised input + residual, and maybe a ReLU.
  virtual void write_sum(const OnednnTensor& residual, const OnednnTensor& output, bool relu) = 0;
  // Before its backward: reads output's gradient, writes residual's if it has one.
  virtual void take_gradient(const OnednnTensor& residual, const OnednnTensor& output,
                             bool relu) = 0;
};

// An Add that can leave its work to a normalisation that writes one of its inputs.
class SumOp : public Op {
 public:
  // `norm` writes `input`; false if another does already. The normalisation outlives the op.
  virtual bool leave_to(NormInSum& norm, const OnednnTensor& input) = 0;
};

// `reader`: the only reader of `output`, or null.
std::unique_ptr<Op> make_batch_norm(const std::string& name, const BatchNorm& layer,
                                    OnednnTensor& input, OnednnTensor& output, SumOp* reader,
                                    OnednnContext& context);

struct AddInputs {
  OnednnTensor& first;
  OnednnTensor& second;
};
std::unique_ptr<SumOp> make_add(const Add& layer, const AddInputs& inputs, OnednnTensor& output,
                                OnednnContext& context);
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
std::unique_ptr<Op> make_accumulate(OnednnTensor& tensor, OnednnTensor& view,
                                    OnednnContext& context);

}  // namespace phub::nn::onednn
