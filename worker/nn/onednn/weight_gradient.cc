#include "worker/nn/onednn/weight_gradient.h"

#include <cstdint>
#include <vector>

#include "kernels/weight_gradient.h"
#include "worker/nn/onednn/choice/processor.h"

namespace phub::nn::onednn {
namespace {

kernels::Convolution3x3::Image image_of(const OnednnTensor& tensor) {
  return {tensor.shape().height, tensor.shape().width, tensor.shape().channels};
}

bool is_square(const Extent& extent, std::uint32_t length) {
  return extent.height == length && extent.width == length;
}

kernels::Convolution3x3 shape_of(const Convolution& layer, const OnednnTensor& input,
                                 const OnednnTensor& output) {
  return {.input = image_of(input),
          .output = image_of(output),
          .stride = layer.window.stride.height,
          .padding = layer.window.padding.height};
}

const std::uint16_t* bfloat16(const dnnl::memory& memory) {
  return static_cast<const std::uint16_t*>(memory.get_data_handle());
}

class OwnWeightGradient : public ComputeWay {
 public:
  OwnWeightGradient(const kernels::Convolution3x3& shape, const OnednnTensor& input,
                    const OnednnTensor& output, unsigned threads)
      : shape_(shape),
        input_(input),
        output_(output),
        sums_(threads, kernels::WeightGradientSums(shape)) {}

  // [output][input][3][3]
  void bind(std::span<const Binding> bindings) override { gradient_ = bindings[0].gradient; }

  Status run(const OnednnContext& context) override {
    std::size_t threads = 1;
    context.team.run(input_.elements(), [&](TeamShare share) {
      if (share.thread == 0) threads = share.threads;
      const auto [first, count] = share.of(input_.batch());
      kernels::WeightGradientSums& sums = sums_[share.thread];
      sums.reset();
      sums.add(count, bfloat16(input_.value()) + first * shape_.input.elements(),
               bfloat16(output_.gradient()) + first * shape_.output.elements());
    });
    kernels::WeightGradientSums::write(std::span(sums_).first(threads), gradient_.data());
    return {};
  }

 private:
  kernels::Convolution3x3 shape_;
  const OnednnTensor& input_;
  const OnednnTensor& output_;
  std::vector<kernels::WeightGradientSums> sums_;  // by thread
  std::span<float> gradient_;
};

}  // namespace

bool has_own_weight_gradient(const Convolution& layer, const OnednnTensor& input,
                             const OnednnTensor& output, const OnednnContext& context) {
  const Window& window = layer.window;
  if (context.type != DataType::kBfloat16 || layer.groups != 1 || layer.bias) return false;
  if (!is_square(window.kernel, kernels::Convolution3x3::kWidth)) return false;
  if (!is_square(window.stride, window.stride.height)) return false;
  if (!is_square(window.padding, window.padding.height)) return false;
  return may_use_avx512_bf16() && kernels::has_weight_gradient(shape_of(layer, input, output));
}

std::unique_ptr<ComputeWay> make_own_weight_gradient(const Convolution& layer,
                                                     const OnednnTensor& input,
                                                     const OnednnTensor& output,
                                                     const OnednnContext& context) {
  return std::make_unique<OwnWeightGradient>(shape_of(layer, input, output), input, output,
                                             context.team.threads());
}

}  // namespace phub::nn::onednn
