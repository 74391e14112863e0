// Dropout, in plain code: it comes after a network's large inner products, whose activations are
// few.
#include "worker/nn/dropout.h"

#include <algorithm>
#include <cstring>

#include "kernels/reduce.h"
#include "worker/nn/onednn/layers.h"

namespace phub::nn::onednn {
namespace {

class DropoutOp : public Op {
 public:
  DropoutOp(const Dropout& layer, const OpSite& site)
      : name_(site.name),
        ratio_(layer.ratio),
        input_(site.input()),
        output_(site.output),
        noise_(site.noise) {}

  Status forward(Mode mode) override {
    const std::byte* source = bytes(input_.value());
    std::byte* target = bytes(output_.value());
    if (mode == Mode::kInference) {
      std::memcpy(target, source, input_.elements() * size_of(input_.type()));
      return {};
    }
    forward_noise_ = noise_;
    apply(source, target);
    return {};
  }

  Status backward() override {
    if (!input_.has_gradient()) return {};
    apply(bytes(output_.gradient()), bytes(input_.gradient()));
    return {};
  }

 private:
  // Forward and backward are the same product with the mask.
  void apply(const std::byte* source, std::byte* target) const {
    const DropoutMask mask(forward_noise_, name_, ratio_);
    const float scale = 1.0F / (1.0F - ratio_);
    const DataType type = input_.type();
    const std::size_t elements = input_.elements();
    float part[kPartElements];
    std::byte* const part_bytes = reinterpret_cast<std::byte*>(part);
    for (std::size_t first = 0; first < elements; first += kPartElements) {
      const std::size_t count = std::min(kPartElements, elements - first);
      const std::size_t offset = first * size_of(type);
      kernels::convert(part_bytes, DataType::kFloat32, source + offset, type, count);
      for (std::size_t i = 0; i < count; ++i) {
        part[i] = mask.keeps(first + i) ? part[i] * scale : 0.0F;
      }
      kernels::convert(target + offset, type, part_bytes, DataType::kFloat32, count);
    }
  }

  static constexpr std::size_t kPartElements = 1024;  // in fp32 at a time

  std::string name_;
  float ratio_;
  OnednnTensor& input_;
  OnednnTensor& output_;
  const std::uint64_t& noise_;
  std::uint64_t forward_noise_ = 0;
};

}  // namespace

std::unique_ptr<Op> make(const Dropout& layer, const OpSite& site) {
  return std::make_unique<DropoutOp>(layer, site);
}

}  // namespace phub::nn::onednn
