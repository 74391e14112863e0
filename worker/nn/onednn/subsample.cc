// The parameter-free shortcut, in plain code: it moves a quarter of a tensor once.
#include <algorithm>

#include "common/base/check.h"
#include "worker/nn/onednn/layers.h"

namespace phub::nn::onednn {
namespace {

class SubsampleOp : public Op {
 public:
  SubsampleOp(const Subsample& layer, OnednnTensor& input, OnednnTensor& output)
      : stride_(layer.stride), input_(input), output_(output) {}

  Status bind(std::span<const Binding> bindings) override {
    PHUB_CHECK(bindings.empty(), "the shortcut has no parameters");
    return {};
  }

  Status forward(Mode) override {
    const float* source = floats(input_.value());
    float* target = floats(output_.value());
    std::fill_n(target, output_.elements(), 0.0F);
    for_each_kept_pixel([&](std::size_t input, std::size_t output) {
      std::copy_n(source + input, input_.shape().channels, target + output);
    });
    return {};
  }

  Status backward() override {
    if (!input_.has_gradient()) return {};
    const float* source = floats(output_.gradient());
    float* target = floats(input_.gradient());
    std::fill_n(target, input_.elements(), 0.0F);
    for_each_kept_pixel([&](std::size_t input, std::size_t output) {
      std::copy_n(source + output, input_.shape().channels, target + input);
    });
    return {};
  }

 private:
  static float* floats(const dnnl::memory& memory) {
    return static_cast<float*>(memory.get_data_handle());
  }

  // Calls visit(offset of the pixel's channels in the input, offset of the same in the output).
  template <typename Visit>
  void for_each_kept_pixel(Visit visit) const {
    const Shape& in = input_.shape();
    const Shape& out = output_.shape();
    const std::size_t before = (out.channels - in.channels) / 2;
    for (std::size_t image = 0; image < input_.batch(); ++image) {
      for (std::size_t row = 0; row < out.height; ++row) {
        for (std::size_t column = 0; column < out.width; ++column) {
          const std::size_t from =
              (image * in.height + row * stride_) * in.width + column * stride_;
          const std::size_t to = (image * out.height + row) * out.width + column;
          visit(from * in.channels, to * out.channels + before);
        }
      }
    }
  }

  std::size_t stride_;
  OnednnTensor& input_;
  OnednnTensor& output_;
};

}  // namespace

std::unique_ptr<Op> make_subsample(const Subsample& layer, OnednnTensor& input,
                                   OnednnTensor& output) {
  return std::make_unique<SubsampleOp>(layer, input, output);
}

}  // namespace phub::nn::onednn
