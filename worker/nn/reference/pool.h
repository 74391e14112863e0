// Pooling of the reference backend.
#pragma once

#include <algorithm>
#include <limits>
#include <vector>

#include "worker/nn/reference/tensor.h"

namespace phub::nn::reference {

// One window along one axis, cut off at the image.
struct WindowRange {
  std::size_t begin, end;
  std::size_t padded;  // its length before the cut, but at most to the end of the padding
};

inline WindowRange range_of(std::size_t index, std::size_t size, std::size_t kernel,
                            std::size_t stride, std::size_t padding) {
  const std::size_t start = index * stride;  // from the start of the padding
  const std::size_t end = std::min(start + kernel, size + 2 * padding);
  return {.begin = std::max(start, padding) - padding,
          .end = std::min(end, size + padding) - padding,
          .padded = end - start};
}

template <typename T>
class PoolOp : public Op {
 public:
  PoolOp(const Pool& layer, const Ends<T>& ends)
      : layer_(layer), in_(ends.input), out_(ends.output), chosen_(out_.elements()) {}

  Status forward(Mode) override {
    for_each_window([&](const Rows& rows) {
      for (std::size_t c = 0; c < in_.shape().channels; ++c) {
        out_.value()[rows.to + c] =
            layer_.kind == PoolKind::kMax ? maximum(rows, c) : average(rows, c);
      }
    });
    return {};
  }

  Status backward() override {
    if (!in_.has_gradient()) return {};
    const std::span<T> by_in = in_.gradient();
    std::fill(by_in.begin(), by_in.end(), T{0});
    for_each_window([&](const Rows& rows) {
      for (std::size_t c = 0; c < in_.shape().channels; ++c) {
        const T by_out = out_.gradient()[rows.to + c];
        if (layer_.kind == PoolKind::kMax) {
          by_in[chosen_[rows.to + c]] += by_out;
        } else {
          for_each_pixel(rows, [&](std::size_t from) { by_in[from + c] += by_out / rows.divisor; });
        }
      }
    });
    return {};
  }

 private:
  struct Rows {
    std::size_t image;
    WindowRange rows, columns;
    std::size_t to;  // index of the output's first channel
    T divisor;       // of an average
  };

  template <typename Visit>
  void for_each_window(Visit visit) const {
    const auto& [kernel, stride, padding] = layer_.window;
    for (std::size_t image = 0; image < out_.batch(); ++image) {
      for (std::size_t row = 0; row < out_.shape().height; ++row) {
        for (std::size_t column = 0; column < out_.shape().width; ++column) {
          const WindowRange rows =
              range_of(row, in_.shape().height, kernel.height, stride.height, padding.height);
          const WindowRange columns =
              range_of(column, in_.shape().width, kernel.width, stride.width, padding.width);
          const std::size_t pixels = layer_.count_padding
                                         ? rows.padded * columns.padded
                                         : (rows.end - rows.begin) * (columns.end - columns.begin);
          visit(
              Rows{image, rows, columns, out_.offset(image, row, column), static_cast<T>(pixels)});
        }
      }
    }
  }

  // Calls visit(index of the pixel's first channel), row by row.
  template <typename Visit>
  void for_each_pixel(const Rows& window, Visit visit) const {
    for (std::size_t row = window.rows.begin; row < window.rows.end; ++row) {
      for (std::size_t column = window.columns.begin; column < window.columns.end; ++column) {
        visit(in_.offset(window.image, row, column));
      }
    }
  }

  // The first of equal ones.
  T maximum(const Rows& window, std::size_t channel) {
    T largest = -std::numeric_limits<T>::infinity();
    std::size_t chosen = 0;
    bool any = false;
    for_each_pixel(window, [&](std::size_t from) {
      const T value = in_.value()[from + channel];
      if (any && !(value > largest)) return;
      any = true;
      largest = value;
      chosen = from + channel;
    });
    chosen_[window.to + channel] = chosen;
    return largest;
  }

  T average(const Rows& window, std::size_t channel) const {
    T sum{0};
    for_each_pixel(window, [&](std::size_t from) { sum += in_.value()[from + channel]; });
    return sum / window.divisor;
  }

  Pool layer_;
  ReferenceTensor<T>& in_;
  ReferenceTensor<T>& out_;
  std::vector<std::size_t> chosen_;  // of each maximum: its index in the input
};

}  // namespace phub::nn::reference
