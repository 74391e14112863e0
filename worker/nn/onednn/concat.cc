// Concatenation along the channels, in plain code: in NHWC each pixel of each input is one piece.
#include <cstring>
#include <vector>

#include "worker/nn/onednn/layers.h"

namespace phub::nn::onednn {
namespace {

class ConcatOp : public Op {
 public:
  ConcatOp(std::span<OnednnTensor* const> inputs, OnednnTensor& output)
      : inputs_(inputs.begin(), inputs.end()), output_(output) {}

  Status forward(Mode) override {
    std::byte* target = bytes(output_.value());
    for_each_input([&](const OnednnTensor& input, std::size_t first) {
      const std::byte* source = bytes(input.value());
      for_each_pixel(input, first, [&](std::size_t in, std::size_t out, std::size_t size) {
        std::memcpy(target + out, source + in, size);
      });
    });
    return {};
  }

  Status backward() override {
    const std::byte* source = bytes(output_.gradient());
    for_each_input([&](const OnednnTensor& input, std::size_t first) {
      if (!input.has_gradient()) return;
      std::byte* target = bytes(input.gradient());
      for_each_pixel(input, first, [&](std::size_t in, std::size_t out, std::size_t size) {
        std::memcpy(target + in, source + out, size);
      });
    });
    return {};
  }

 private:
  // Calls visit(input, its first channel in the output).
  template <typename Visit>
  void for_each_input(Visit visit) const {
    std::size_t first = 0;
    for (const OnednnTensor* input : inputs_) {
      visit(*input, first);
      first += input->shape().channels;
    }
  }

  // Calls visit(offset in the input, offset in the output, size), all in bytes.
  template <typename Visit>
  void for_each_pixel(const OnednnTensor& input, std::size_t first, Visit visit) const {
    const std::size_t element = size_of(output_.type());
    const std::size_t size = input.shape().channels * element;
    const std::size_t stride = output_.shape().channels * element;
    for (std::size_t pixel = 0; pixel < input.pixels(); ++pixel) {
      visit(pixel * size, pixel * stride + first * element, size);
    }
  }

  std::vector<OnednnTensor*> inputs_;
  OnednnTensor& output_;
};

}  // namespace

std::unique_ptr<Op> make(const Concat&, const OpSite& site) {
  return std::make_unique<ConcatOp>(site.inputs, site.output);
}

}  // namespace phub::nn::onednn
