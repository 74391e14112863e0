// Dropout, in plain code: it comes after a network's large inner products, whose activations are
// few.
#include "worker/nn/dropout.h"

#include <algorithm>

#include "common/base/check.h"
#include "worker/nn/onednn/layers.h"

namespace phub::nn::onednn {
namespace {

float* floats(const dnnl::memory& memory) { return static_cast<float*>(memory.get_data_handle()); }

class DropoutOp : public Op {
 public:
  DropoutOp(const std::string& name, const Dropout& layer, const DropoutTensors& tensors,
            const std::uint64_t& noise)
      : name_(name), ratio_(layer.ratio), tensors_(tensors), noise_(noise) {}

  Status bind(std::span<const Binding> bindings) override {
    PHUB_CHECK(bindings.empty(), "dropout has no parameters");
    return {};
  }

  Status forward(Mode mode) override {
    const float* source = floats(tensors_.input.value());
    float* target = floats(tensors_.output.value());
    if (mode == Mode::kInference) {
      std::copy_n(source, tensors_.input.elements(), target);
      return {};
    }
    forward_noise_ = noise_;
    apply(source, target);
    return {};
  }

  Status backward() override {
    if (!tensors_.input.has_gradient()) return {};
    apply(floats(tensors_.output.gradient()), floats(tensors_.input.gradient()));
    return {};
  }

 private:
  // Forward and backward are the same product with the mask.
  void apply(const float* source, float* target) const {
    const DropoutMask mask(forward_noise_, name_, ratio_);
    const float scale = 1.0F / (1.0F - ratio_);
    for (std::size_t i = 0; i < tensors_.input.elements(); ++i) {
      target[i] = mask.keeps(i) ? source[i] * scale : 0.0F;
    }
  }

  std::string name_;
  float ratio_;
  DropoutTensors tensors_;
  const std::uint64_t& noise_;
  std::uint64_t forward_noise_ = 0;
};

}  // namespace

std::unique_ptr<Op> make_dropout(const std::string& name, const Dropout& layer,
                                 const DropoutTensors& tensors, const std::uint64_t& noise) {
  return std::make_unique<DropoutOp>(name, layer, tensors, noise);
}

}  // namespace phub::nn::onednn
