// Batch normalisation by our own kernels (kernels/activations.h): two passes over the activations
// forward, two backward, each split over the team's threads. The ReLU's mask is worked out again
// from the input, which backward reads anyway. Where only an Add reads the result, the sum is
// written at once (NormInSum).
#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "common/base/check.h"
#include "kernels/activations.h"
#include "kernels/reduce.h"
#include "worker/nn/onednn/layers.h"

namespace phub::nn::onednn {
namespace {

// The sums of variances are taken about the mean of so many pixels: near enough the whole mean for
// no digits to cancel.
constexpr std::size_t kSamples = 16;

class BatchNormOp : public Op, public NormInSum {
 public:
  BatchNormOp(const BatchNorm& layer, const OpSite& site)
      : context_(site.context),
        name_(site.name),
        layer_(layer),
        input_(site.input()),
        output_(site.output),
        channels_(input_.shape().channels),
        running_mean_(channels_, 0.0F),
        running_variance_(channels_, 1.0F),
        mean_(channels_),
        factor_(channels_),
        about_(channels_),
        inverse_deviation_(channels_),
        slope_(channels_),
        offset_(channels_),
        sample_(channels_),
        sums_(2 * stride() * context_.team.threads()),
        in_sum_(!layer.relu && site.reader != nullptr && site.reader->leave_to(*this, output_)) {}

  Status bind(std::span<const Binding> bindings) override {
    PHUB_CHECK(bindings.size() == 2, "scale and shift");
    std::copy(bindings.begin(), bindings.end(), bindings_.begin());
    return {};
  }

  Status forward(Mode mode) override {
    if (mode == Mode::kTraining) {
      take_statistics();
    } else {
      mean_ = running_mean_;
      set_factors([&](std::size_t c) { return static_cast<double>(running_variance_[c]); });
    }
    if (!in_sum_) write_normalised(nullptr, output_, layer_.relu);
    return {};
  }

  void write_sum(const OnednnTensor& residual, const OnednnTensor& output, bool relu) override {
    write_normalised(&residual, output, relu);
  }

  Status backward() override {
    if (!in_sum_) {
      gradient_ = {.output_gradient = bytes(output_.gradient()), .relu = layer_.relu};
      sum_gradients(nullptr);
    }
    set_gradients();
    if (!input_.has_gradient()) return {};
    for_each_share([&](std::size_t offset, const kernels::Pixels& shape) {
      kernels::normalise_backward(gradient_of(offset, shape), {slope_.data(), offset_.data()},
                                  bytes(input_.gradient()) + offset);
    });
    return {};
  }

  void take_gradient(const OnednnTensor& residual, const OnednnTensor& output, bool relu) override {
    gradient_ = {.output_gradient = bytes(output.gradient()),
                 .mask = relu ? bytes(output.value()) : nullptr};
    sum_gradients(residual.has_gradient() ? bytes(residual.gradient()) : nullptr);
  }

  bool leaves_output() const override { return in_sum_; }

  std::vector<StateBuffer> buffers() override {
    return {{name_ + ".running_mean", running_mean_}, {name_ + ".running_var", running_variance_}};
  }

 private:
  // Doubles of one thread's sums: whole lines of the cache, so that no two threads write to one.
  std::size_t stride() const { return (channels_ + 7) / 8 * 8; }

  void clear_sums() { std::fill(sums_.begin(), sums_.end(), 0.0); }

  // Of all threads.
  double sum(std::size_t c) const {
    double total = 0.0;
    for (std::size_t i = c; i < sums_.size(); i += 2 * stride()) total += sums_[i];
    return total;
  }

  // Calls work(offset in bytes, shape[, sums]) for each thread's pixels.
  template <typename Work>
  void for_each_share(const Work& work) {
    context_.team.run(input_.elements(), [&](const TeamShare& share) {
      const TeamShare::Range range = share.of(input_.pixels());
      const std::size_t offset = range.first * channels_ * size_of(input_.type());
      const kernels::Pixels shape{range.count, channels_, input_.type()};
      if constexpr (std::is_invocable_v<Work, std::size_t, kernels::Pixels, double*>) {
        work(offset, shape, sums_.data() + 2 * stride() * share.thread);
      } else {
        work(offset, shape);
      }
    });
  }

  kernels::ChannelScale scale() const {
    return {mean_.data(), factor_.data(), bindings_[1].parameter.data()};
  }

  void write_normalised(const OnednnTensor* residual, const OnednnTensor& output, bool relu) {
    for_each_share([&](std::size_t offset, const kernels::Pixels& shape) {
      kernels::normalise(
          {.shape = shape,
           .input = bytes(input_.value()) + offset,
           .residual = residual != nullptr ? bytes(residual->value()) + offset : nullptr,
           .output = bytes(output.value()) + offset,
           .scale = scale(),
           .relu = relu});
    });
  }

  // Where the gradient comes from in this backward, and what masks it.
  struct GradientSource {
    const std::byte* output_gradient = nullptr;
    const std::byte* mask = nullptr;
    bool relu = false;
  };

  kernels::NormaliseGradient gradient_of(std::size_t offset, const kernels::Pixels& shape) const {
    return {.shape = shape,
            .input = bytes(input_.value()) + offset,
            .output_gradient = gradient_.output_gradient + offset,
            .mask = gradient_.mask != nullptr ? gradient_.mask + offset : nullptr,
            .scale = scale(),
            .relu = gradient_.relu};
  }

  // `masked` receives the gradient behind the ReLU, if it is not null.
  void sum_gradients(std::byte* masked) {
    clear_sums();
    for_each_share([&](std::size_t offset, const kernels::Pixels& shape, double* sums) {
      kernels::add_gradient_sums(gradient_of(offset, shape), sums, sums + stride(),
                                 masked != nullptr ? masked + offset : nullptr);
    });
  }

  // The mean of a few pixels that lie evenly in the batch.
  void sample_about() {
    std::fill(about_.begin(), about_.end(), 0.0F);
    const std::size_t samples = std::min(kSamples, input_.pixels());
    for (std::size_t i = 0; i < samples; ++i) {
      const std::size_t pixel = i * input_.pixels() / samples;
      const std::size_t offset = pixel * channels_ * size_of(input_.type());
      kernels::convert(reinterpret_cast<std::byte*>(sample_.data()), DataType::kFloat32,
                       bytes(input_.value()) + offset, input_.type(), channels_);
      for (std::size_t c = 0; c < channels_; ++c) {
        about_[c] += sample_[c] / static_cast<float>(samples);
      }
    }
  }

  void take_statistics() {
    sample_about();
    clear_sums();
    for_each_share([&](std::size_t offset, const kernels::Pixels& shape, double* sums) {
      kernels::add_channel_sums({.shape = shape,
                                 .input = bytes(input_.value()) + offset,
                                 .about = about_.data(),
                                 .sums = sums,
                                 .squares = sums + stride()});
    });
    const auto count = static_cast<double>(input_.pixels());
    // The running variance is that of an unbiased estimate, as in PyTorch.
    const double unbiased = count > 1.0 ? count / (count - 1.0) : 1.0;
    set_factors([&](std::size_t c) {
      const double beyond = sum(c) / count;
      const double variance = std::max(sum(stride() + c) / count - beyond * beyond, 0.0);
      mean_[c] = static_cast<float>(static_cast<double>(about_[c]) + beyond);
      move_towards(running_mean_[c], mean_[c]);
      move_towards(running_variance_[c], static_cast<float>(variance * unbiased));
      return variance;
    });
  }

  void move_towards(float& running, float batch) const {
    running += layer_.momentum * (batch - running);
  }

  template <typename Variance>
  void set_factors(const Variance& variance) {
    for (std::size_t c = 0; c < channels_; ++c) {
      const double inverse = 1.0 / std::sqrt(variance(c) + static_cast<double>(layer_.epsilon));
      inverse_deviation_[c] = inverse;
      factor_[c] = static_cast<float>(inverse * static_cast<double>(bindings_[0].parameter[c]));
    }
  }

  // With g the gradient behind the ReLU, n pixels and x' = (x - mean) / deviation, the gradients
  // are: by shift sum(g), by scale sum(g x'), by x scale / deviation * (g - mean(g) - x' mean(g
  // x')).
  void set_gradients() {
    const auto count = static_cast<double>(input_.pixels());
    for (std::size_t c = 0; c < channels_; ++c) {
      const double gradients = sum(c);
      const double products = sum(stride() + c) * inverse_deviation_[c];
      const auto factor = static_cast<double>(factor_[c]);
      bindings_[0].gradient[c] = static_cast<float>(products);
      bindings_[1].gradient[c] = static_cast<float>(gradients);
      offset_[c] = static_cast<float>(-factor * gradients / count);
      slope_[c] = static_cast<float>(-factor * products * inverse_deviation_[c] / count);
    }
  }

  OnednnContext& context_;
  std::string name_;
  BatchNorm layer_;
  OnednnTensor& input_;
  OnednnTensor& output_;
  std::size_t channels_;
  std::array<Binding, 2> bindings_;
  std::vector<float> running_mean_, running_variance_;
  std::vector<float> mean_, factor_;  // of the last forward
  std::vector<float> about_;
  std::vector<double> inverse_deviation_;
  std::vector<float> slope_, offset_;  // of the last backward
  std::vector<float> sample_;
  std::vector<double> sums_;  // two for each channel, for each thread
  GradientSource gradient_;
  bool in_sum_;  // an Add has it write the sum
};

}  // namespace

std::unique_ptr<Op> make(const BatchNorm& layer, const OpSite& site) {
  return std::make_unique<BatchNormOp>(layer, site);
}

}  // namespace phub::nn::onednn
