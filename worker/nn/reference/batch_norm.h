// Batch normalisation of the reference backend.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "worker/nn/reference/tensor.h"

namespace phub::nn::reference {

// Ioffe and Szegedy, "Batch normalization" (2015). Sums over all pixels are in fp64 for either T:
// they are long.
template <typename T>
class BatchNormOp : public Op {
 public:
  BatchNormOp(const std::string& name, const BatchNorm& layer, const Ends<T>& ends)
      : name_(name),
        layer_(layer),
        in_(ends.input),
        out_(ends.output),
        channels_(in_.shape().channels),
        mean_(channels_),
        deviation_(channels_),
        running_mean_(channels_, 0.0F),
        running_variance_(channels_, 1.0F) {}

  Status bind(std::span<const Binding> bindings) override {
    PHUB_CHECK(bindings.size() == 2, "scale and shift");
    std::copy(bindings.begin(), bindings.end(), bindings_);
    return {};
  }

  Status forward(Mode mode) override {
    for (std::size_t c = 0; c < channels_; ++c) {
      if (mode == Mode::kTraining) {
        take_statistics(c);
      } else {
        mean_[c] = static_cast<double>(running_mean_[c]);
        deviation_[c] =
            std::sqrt(static_cast<double>(running_variance_[c]) + double{layer_.epsilon});
      }
      const auto scale = static_cast<T>(bindings_[0].parameter[c]);
      const auto shift = static_cast<T>(bindings_[1].parameter[c]);
      for_each_pixel(c, [&](std::size_t i) {
        const T result = scale * normalised(i, c) + shift;
        out_.value()[i] = layer_.relu ? std::max(result, T{0}) : result;
      });
    }
    return {};
  }

  Status backward() override {
    for (std::size_t c = 0; c < channels_; ++c) {
      double by_scale = 0.0, by_shift = 0.0;
      for_each_pixel(c, [&](std::size_t i) {
        by_scale += static_cast<double>(by_result(i) * normalised(i, c));
        by_shift += static_cast<double>(by_result(i));
      });
      bindings_[0].gradient[c] = static_cast<float>(by_scale);
      bindings_[1].gradient[c] = static_cast<float>(by_shift);
      if (in_.has_gradient()) write_input_gradient(c, by_scale, by_shift);
    }
    return {};
  }

  std::vector<StateBuffer> buffers() override {
    return {{name_ + ".running_mean", running_mean_}, {name_ + ".running_var", running_variance_}};
  }

 private:
  template <typename Visit>
  void for_each_pixel(std::size_t channel, Visit visit) const {
    for (std::size_t i = channel; i < in_.elements(); i += channels_) visit(i);
  }

  T normalised(std::size_t i, std::size_t channel) const {
    return (in_.value()[i] - static_cast<T>(mean_[channel])) / static_cast<T>(deviation_[channel]);
  }

  // The loss's gradient by the result before the ReLU, if there is one.
  T by_result(std::size_t i) const {
    return layer_.relu && !(out_.value()[i] > T{0}) ? T{0} : out_.gradient()[i];
  }

  void take_statistics(std::size_t channel) {
    const auto pixels = static_cast<double>(in_.pixels());
    double sum = 0.0, squares = 0.0;
    for_each_pixel(channel, [&](std::size_t i) { sum += static_cast<double>(in_.value()[i]); });
    mean_[channel] = sum / pixels;
    for_each_pixel(channel, [&](std::size_t i) {
      const double difference = static_cast<double>(in_.value()[i]) - mean_[channel];
      squares += difference * difference;
    });
    const double variance = squares / pixels;
    deviation_[channel] = std::sqrt(variance + double{layer_.epsilon});
    // The running variance is that of an unbiased estimate, as in PyTorch.
    const double unbiased = pixels > 1.0 ? squares / (pixels - 1.0) : variance;
    approach(running_mean_[channel], mean_[channel]);
    approach(running_variance_[channel], unbiased);
  }

  void approach(float& running, double batch) const {
    const auto before = static_cast<double>(running);
    running = static_cast<float>(before + double{layer_.momentum} * (batch - before));
  }

  void write_input_gradient(std::size_t channel, double by_scale, double by_shift) {
    const auto pixels = static_cast<double>(in_.pixels());
    const auto factor =
        static_cast<T>(static_cast<double>(bindings_[0].parameter[channel]) / deviation_[channel]);
    const auto mean_by_shift = static_cast<T>(by_shift / pixels);
    const auto mean_by_scale = static_cast<T>(by_scale / pixels);
    for_each_pixel(channel, [&](std::size_t i) {
      in_.gradient()[i] =
          factor * (by_result(i) - mean_by_shift - normalised(i, channel) * mean_by_scale);
    });
  }

  std::string name_;
  BatchNorm layer_;
  ReferenceTensor<T>& in_;
  ReferenceTensor<T>& out_;
  std::size_t channels_;
  std::vector<double> mean_, deviation_;  // of the last forward
  std::vector<float> running_mean_, running_variance_;
  Binding bindings_[2];
};

}  // namespace phub::nn::reference
