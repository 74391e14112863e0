// Concatenation along the channels, in plain code: in NHWC each pixel of each input is one piece.
#include <algorithm>
#include <vector>

#include "common/base/check.h"
#include "worker/nn/onednn/layers.h"

namespace phub::nn::onednn {
namespace {

float* floats(const dnnl::memory& memory) { return static_cast<float*>(memory.get_data_handle()); }

class ConcatOp : public Op {
 public:
  ConcatOp(std::span<OnednnTensor* const> inputs, OnednnTensor& output)
      : inputs_(inputs.begin(), inputs.end()), output_(output) {}

  Status bind(std::span<const Binding> bindings) override {
    PHUB_CHECK(bindings.empty(), "a concatenation has no parameters");
    return {};
  }

  Status forward(Mode) override {
    float* target = floats(output_.value());
    for_each_input([&](const OnednnTensor& input, std::size_t first) {
      const float* source = floats(input.value());
      for_each_pixel(input, first, [&](std::size_t in, std::size_t out, std::size_t channels) {
        std::copy_n(source + in, channels, target + out);
      });
    });
    return {};
  }

  Status backward() override {
    const float* source = floats(output_.gradient());
    for_each_input([&](const OnednnTensor& input, std::size_t first) {
      if (!input.has_gradient()) return;
      float* target = floats(input.gradient());
      for_each_pixel(input, first, [&](std::size_t in, std::size_t out, std::size_t channels) {
        std::copy_n(source + out, channels, target + in);
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

  // Calls visit(offset in the input, offset in the output, channels).
  template <typename Visit>
  void for_each_pixel(const OnednnTensor& input, std::size_t first, Visit visit) const {
    const std::size_t channels = input.shape().channels;
    const std::size_t pixels = input.elements() / channels;
    for (std::size_t pixel = 0; pixel < pixels; ++pixel) {
      visit(pixel * channels, pixel * output_.shape().channels + first, channels);
    }
  }

  std::vector<OnednnTensor*> inputs_;
  OnednnTensor& output_;
};

}  // namespace

std::unique_ptr<Op> make_concat(std::span<OnednnTensor* const> inputs, OnednnTensor& output) {
  return std::make_unique<ConcatOp>(inputs, output);
}

}  // namespace phub::nn::onednn
