// The parameter-free shortcut, in plain code: it moves a quarter of a tensor once.
#include <cstring>

#include "worker/nn/onednn/layers.h"

namespace phub::nn::onednn {
namespace {

class SubsampleOp : public Op {
 public:
  SubsampleOp(const Subsample& layer, OnednnTensor& input, OnednnTensor& output)
      : stride_(layer.stride), input_(input), output_(output) {}

  Status forward(Mode) override {
    const std::byte* source = bytes(input_.value());
    std::byte* target = bytes(output_.value());
    std::memset(target, 0, output_.elements() * size_of(output_.type()));
    const std::size_t size = pixel_bytes();
    for_each_kept_pixel([&](std::size_t input, std::size_t output) {
      std::memcpy(target + output, source + input, size);
    });
    return {};
  }

  Status backward() override {
    if (!input_.has_gradient()) return {};
    const std::byte* source = bytes(output_.gradient());
    std::byte* target = bytes(input_.gradient());
    std::memset(target, 0, input_.elements() * size_of(input_.type()));
    const std::size_t size = pixel_bytes();
    for_each_kept_pixel([&](std::size_t input, std::size_t output) {
      std::memcpy(target + input, source + output, size);
    });
    return {};
  }

 private:
  std::size_t pixel_bytes() const { return input_.shape().channels * size_of(input_.type()); }

  // Calls visit(offset of the pixel's channels in the input, offset of the same in the output), in
  // bytes. An element of 0 is 0 in either type.
  template <typename Visit>
  void for_each_kept_pixel(Visit visit) const {
    const Shape& in = input_.shape();
    const Shape& out = output_.shape();
    const std::size_t before = (out.channels - in.channels) / 2;
    const std::size_t element = size_of(input_.type());
    for (std::size_t image = 0; image < input_.batch(); ++image) {
      for (std::size_t row = 0; row < out.height; ++row) {
        for (std::size_t column = 0; column < out.width; ++column) {
          const std::size_t from =
              (image * in.height + row * stride_) * in.width + column * stride_;
          const std::size_t to = (image * out.height + row) * out.width + column;
          visit(from * in.channels * element, (to * out.channels + before) * element);
        }
      }
    }
  }

  std::size_t stride_;
  OnednnTensor& input_;
  OnednnTensor& output_;
};

}  // namespace

std::unique_ptr<Op> make(const Subsample& layer, const OpSite& site) {
  return std::make_unique<SubsampleOp>(layer, site.input(), site.output);
}

}  // namespace phub::nn::onednn
