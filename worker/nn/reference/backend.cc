#include "worker/nn/reference/backend.h"

#include <vector>

#include "worker/nn/reference/batch_norm.h"
#include "worker/nn/reference/convolution.h"
#include "worker/nn/reference/elementwise.h"
#include "worker/nn/reference/pool.h"

namespace phub::nn {
namespace reference {
namespace {

// Makes the op of one layer.
template <typename T>
struct MakeOp {
  const std::string& name;
  std::span<ReferenceTensor<T>* const> inputs;
  ReferenceTensor<T>& output;
  const std::uint64_t& noise;

  using OpPointer = std::unique_ptr<Op>;

  Ends<T> ends() const { return {*inputs[0], output}; }
  // A window over the whole input.
  Window whole() const {
    const Shape& shape = inputs[0]->shape();
    return {.kernel = {shape.height, shape.width}};
  }

  OpPointer operator()(const Convolution& layer) const {
    return std::make_unique<ConvolutionOp<T>>(layer, ends());
  }
  // A convolution whose window is the whole image: the weights' layouts agree.
  OpPointer operator()(const InnerProduct& layer) const {
    return (*this)(
        Convolution{.channels = layer.outputs, .window = whole(), .bias = layer.bias, .groups = 1});
  }
  OpPointer operator()(const Pool& layer) const {
    return std::make_unique<PoolOp<T>>(layer, ends());
  }
  OpPointer operator()(const GlobalAveragePool&) const {
    return (*this)(Pool{.kind = PoolKind::kAverage, .window = whole()});
  }
  OpPointer operator()(const Relu&) const { return std::make_unique<ReluOp<T>>(ends()); }
  OpPointer operator()(const BatchNorm& layer) const {
    return std::make_unique<BatchNormOp<T>>(name, layer, ends());
  }
  OpPointer operator()(const Add& layer) const {
    return std::make_unique<AddOp<T>>(layer, inputs, output);
  }
  OpPointer operator()(const Concat&) const {
    return std::make_unique<ConcatOp<T>>(inputs, output);
  }
  OpPointer operator()(const Dropout& layer) const {
    return std::make_unique<DropoutOp<T>>(name, layer, ends(), noise);
  }
  OpPointer operator()(const Subsample& layer) const {
    return std::make_unique<SubsampleOp<T>>(layer, ends());
  }
};

template <typename T>
class ReferenceBackend : public Backend {
 public:
  std::string_view name() const override { return "reference"; }

  Result<std::unique_ptr<nn::Tensor>> make_tensor(const TensorOptions& options) override {
    return std::unique_ptr<nn::Tensor>(std::make_unique<ReferenceTensor<T>>(options));
  }

  Result<std::unique_ptr<nn::Tensor>> make_view(nn::Tensor& tensor) override {
    return std::unique_ptr<nn::Tensor>(std::make_unique<ReferenceTensor<T>>(&own(tensor)));
  }

  Result<std::unique_ptr<Op>> make_op(const Layer& layer, std::span<nn::Tensor* const> inputs,
                                      nn::Tensor& output) override {
    std::vector<ReferenceTensor<T>*> own_inputs;
    for (nn::Tensor* input : inputs) own_inputs.push_back(&own(*input));
    return std::visit(MakeOp<T>{layer.name, own_inputs, own(output), noise()}, layer.kind);
  }

  Result<std::unique_ptr<Op>> make_accumulate(nn::Tensor& tensor, nn::Tensor& view) override {
    return std::unique_ptr<Op>(std::make_unique<AccumulateOp<T>>(own(tensor), own(view)));
  }

 private:
  // Tensors come from this backend's make_tensor and make_view.
  static ReferenceTensor<T>& own(nn::Tensor& tensor) {
    return static_cast<ReferenceTensor<T>&>(tensor);
  }
};

}  // namespace
}  // namespace reference

Result<std::unique_ptr<Backend>> make_reference_backend(const BackendOptions& options) {
  if (options.compute_type != DataType::kFloat32) {
    return Status(Code::kInvalidArgument, "compute type " +
                                              std::string(name_of(options.compute_type)) +
                                              " is not offered by the reference backend: use fp32");
  }
  if (options.threads != 1) {
    return Status(Code::kInvalidArgument,
                  "train.threads is " + std::to_string(options.threads) +
                      ": the reference backend computes on one thread, give 1");
  }
  return std::unique_ptr<Backend>(std::make_unique<reference::ReferenceBackend<float>>());
}

std::unique_ptr<Backend> make_double_backend() {
  return std::make_unique<reference::ReferenceBackend<double>>();
}

}  // namespace phub::nn
