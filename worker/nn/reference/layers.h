// Constructors of the reference ops, for T of float and double. The tensors outlive the op.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "worker/nn/reference/tensor.h"

namespace phub::nn::reference {

template <typename T>
struct Ends {
  ReferenceTensor<T>& input;
  ReferenceTensor<T>& output;
};

// An inner product is a convolution whose window is the whole image: the weights' layouts agree.
template <typename T>
std::unique_ptr<Op> make_convolution(const Convolution& layer, const Ends<T>& ends);
template <typename T>
std::unique_ptr<Op> make_pool(const Pool& layer, const Ends<T>& ends);
template <typename T>
std::unique_ptr<Op> make_batch_norm(const std::string& name, const BatchNorm& layer,
                                    const Ends<T>& ends);
template <typename T>
std::unique_ptr<Op> make_relu(const Ends<T>& ends);
template <typename T>
std::unique_ptr<Op> make_add(const Add& layer, std::span<ReferenceTensor<T>* const> inputs,
                             ReferenceTensor<T>& output);
template <typename T>
std::unique_ptr<Op> make_concat(std::span<ReferenceTensor<T>* const> inputs,
                                ReferenceTensor<T>& output);
// `noise` is read at each forward and outlives the op.
template <typename T>
std::unique_ptr<Op> make_dropout(const std::string& name, const Dropout& layer, const Ends<T>& ends,
                                 const std::uint64_t& noise);
template <typename T>
std::unique_ptr<Op> make_subsample(const Subsample& layer, const Ends<T>& ends);
// Backward only: tensor's gradient += view's.
template <typename T>
std::unique_ptr<Op> make_accumulate(ReferenceTensor<T>& tensor, ReferenceTensor<T>& view);

// An op without parameters.
class PlainOp : public Op {
 public:
  Status bind(std::span<const Binding> bindings) override {
    PHUB_CHECK(bindings.empty(), "the layer has no parameters");
    return {};
  }
};

}  // namespace phub::nn::reference
