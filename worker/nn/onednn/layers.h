// Constructors of the oneDNN ops, one for each layer kind. They throw dnnl::error (see
// primitives.h).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "worker/nn/onednn/primitives.h"

namespace phub::nn::onednn {

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

// What an op is made for. The tensors, the context and the noise outlive it.
struct OpSite {
  const std::string& name;
  std::span<OnednnTensor* const> inputs;
  OnednnTensor& output;
  OnednnContext& context;
  const std::uint64_t& noise;  // is read at each forward
  SumOp* reader;               // the only reader of the output if that is a sum, or null

  OnednnTensor& input() const { return *inputs[0]; }
};

std::unique_ptr<Op> make(const Convolution& layer, const OpSite& site);
std::unique_ptr<Op> make(const InnerProduct& layer, const OpSite& site);
std::unique_ptr<Op> make(const Pool& layer, const OpSite& site);
// Of the whole image. Into the network's output it is written in fp32 (see
// OnednnTensor::widen_output).
std::unique_ptr<Op> make(const GlobalAveragePool& layer, const OpSite& site);
std::unique_ptr<Op> make(const Relu& layer, const OpSite& site);
std::unique_ptr<Op> make(const BatchNorm& layer, const OpSite& site);
std::unique_ptr<Op> make(const Add& layer, const OpSite& site);
std::unique_ptr<Op> make(const Concat& layer, const OpSite& site);
std::unique_ptr<Op> make(const Dropout& layer, const OpSite& site);
std::unique_ptr<Op> make(const Subsample& layer, const OpSite& site);
// Backward only: tensor's gradient += view's.
std::unique_ptr<Op> make_accumulate(OnednnTensor& tensor, OnednnTensor& view,
                                    OnednnContext& context);

}  // namespace phub::nn::onednn
