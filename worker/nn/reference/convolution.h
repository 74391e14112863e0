// A convolution of the reference backend; inner products are one, too.
#pragma once

#include <algorithm>
#include <vector>

#include "worker/nn/reference/tensor.h"

namespace phub::nn::reference {

template <typename T>
class ConvolutionOp : public Op {
 public:
  ConvolutionOp(const Convolution& layer, const Ends<T>& ends)
      : layer_(layer),
        in_(ends.input),
        out_(ends.output),
        group_in_(in_.shape().channels / layer.groups),
        group_out_(layer.channels / layer.groups),
        weights_(taps() * group_in_ * layer.channels),
        weights_gradient_(weights_.size()) {}

  Status bind(std::span<const Binding> bindings) override {
    PHUB_CHECK(bindings.size() == (layer_.bias ? 2U : 1U), "weights and, if there is one, bias");
    bindings_.assign(bindings.begin(), bindings.end());
    return {};
  }

  Status forward(Mode) override {
    for_each_weight([&](std::size_t plain, std::size_t own) {
      weights_[own] = static_cast<T>(bindings_[0].parameter[plain]);
    });
    const std::span<T> out = out_.value();
    for (std::size_t i = 0; i < out.size(); ++i) {
      out[i] = layer_.bias ? static_cast<T>(bindings_[1].parameter[i % layer_.channels]) : T{0};
    }
    // out[o] += sum over window and i of in[i] * weight[window][i][o]
    for_each_product([&](std::size_t from, std::size_t to, std::size_t weight) {
      const T value = in_.value()[from];
      const T* row = &weights_[weight];
      for (std::size_t o = 0; o < group_out_; ++o) out[to + o] += value * row[o];
    });
    return {};
  }

  Status backward() override {
    const std::span<const T> by_out = out_.gradient();
    std::fill(weights_gradient_.begin(), weights_gradient_.end(), T{0});
    const std::span<T> by_in = in_.has_gradient() ? in_.gradient() : std::span<T>();
    std::fill(by_in.begin(), by_in.end(), T{0});
    for_each_product([&](std::size_t from, std::size_t to, std::size_t weight) {
      const T value = in_.value()[from];
      const T* row = &weights_[weight];
      T* by_row = &weights_gradient_[weight];
      T sum{0};
      for (std::size_t o = 0; o < group_out_; ++o) {
        by_row[o] += value * by_out[to + o];
        sum += row[o] * by_out[to + o];
      }
      if (!by_in.empty()) by_in[from] += sum;
    });
    for_each_weight([&](std::size_t plain, std::size_t own) {
      bindings_[0].gradient[plain] = static_cast<float>(weights_gradient_[own]);
    });
    if (layer_.bias) write_bias_gradient();
    return {};
  }

 private:
  std::size_t taps() const {
    return std::size_t{layer_.window.kernel.height} * layer_.window.kernel.width;
  }

  // Calls visit(index in the exchange's [output][input / groups][row][column], index in ours,
  // [group][row][column][input of the group][output of the group]).
  template <typename Visit>
  void for_each_weight(Visit visit) const {
    std::size_t plain = 0;
    for (std::size_t output = 0; output < layer_.channels; ++output) {
      for (std::size_t i = 0; i < group_in_; ++i) {
        for (std::size_t tap = 0; tap < taps(); ++tap, ++plain) {
          const std::size_t group = output / group_out_;
          visit(plain, weight_row(group, tap, i) + output % group_out_);
        }
      }
    }
  }

  std::size_t weight_row(std::size_t group, std::size_t tap, std::size_t i) const {
    return ((group * taps() + tap) * group_in_ + i) * group_out_;
  }

  // Calls visit(index of an input, index of the first output of its group, index of the weights
  // between them) for all that the windows connect.
  template <typename Visit>
  void for_each_product(Visit visit) const {
    for (std::size_t image = 0; image < out_.batch(); ++image) {
      for (std::size_t row = 0; row < out_.shape().height; ++row) {
        for (std::size_t column = 0; column < out_.shape().width; ++column) {
          for (std::size_t tap = 0; tap < taps(); ++tap) {
            visit_tap(image, row, column, tap, visit);
          }
        }
      }
    }
  }

  template <typename Visit>
  void visit_tap(std::size_t image, std::size_t row, std::size_t column, std::size_t tap,
                 Visit& visit) const {
    const auto& [kernel, stride, padding] = layer_.window;
    // Above and left of the image these wrap to huge numbers, which are outside, too.
    const std::size_t from_row = row * stride.height + tap / kernel.width - padding.height;
    const std::size_t from_column = column * stride.width + tap % kernel.width - padding.width;
    if (from_row >= in_.shape().height || from_column >= in_.shape().width) return;
    const std::size_t from = in_.offset(image, from_row, from_column);
    const std::size_t to = out_.offset(image, row, column);
    for (std::size_t group = 0; group < layer_.groups; ++group) {
      for (std::size_t i = 0; i < group_in_; ++i) {
        visit(from + group * group_in_ + i, to + group * group_out_, weight_row(group, tap, i));
      }
    }
  }

  void write_bias_gradient() {
    std::vector<T> sums(layer_.channels);
    const std::span<const T> by_out = out_.gradient();
    for (std::size_t i = 0; i < by_out.size(); ++i) sums[i % sums.size()] += by_out[i];
    for (std::size_t o = 0; o < sums.size(); ++o) {
      bindings_[1].gradient[o] = static_cast<float>(sums[o]);
    }
  }

  Convolution layer_;
  ReferenceTensor<T>& in_;
  ReferenceTensor<T>& out_;
  std::size_t group_in_, group_out_;  // channels
  std::vector<T> weights_, weights_gradient_;
  std::vector<Binding> bindings_;
};

}  // namespace phub::nn::reference
