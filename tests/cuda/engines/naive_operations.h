// The operations of a graph (worker/cuda/lowered/op_graph.h), one element or one sum at a time:
// plain arithmetic on fp32 with sums in double, as their definitions say, for any shape.
//
// Compiled for the device, where networks of real size are checked with it, and for the host, where
// it is compared with the interpreter. Two kinds of work: `Index size()` with `operator()(i)` for
// every i below it, in any order; and sums, `Index sums()` of `Index terms()` each: `add` is called
// for every term, in any order, and then `finish`. Tensors have 4 dimensions, N C H W; channels are
// neighbours.
#pragma once

#include <cmath>
#include <cstdint>

#include "kernels/cuda/device_code.h"
#include "worker/cuda/lowered/op_graph.h"

namespace phub::testing::naive {

using Index = std::int64_t;
using nn::cuda::PointwiseMode;
using nn::cuda::PoolMode;

struct Position {
  Index n, c, h, w;
};

// An operand in fp32, wherever it is. What has one element in a dimension has stride 0 there: it is
// broadcast.
struct Tensor {
  float* data;
  Index size[4];
  Index stride[4];

  PHUB_HOST_DEVICE Index elements() const { return size[0] * size[1] * size[2] * size[3]; }
  PHUB_HOST_DEVICE float& at(const Position& p) const {
    return data[p.n * stride[0] + p.c * stride[1] + p.h * stride[2] + p.w * stride[3]];
  }
  PHUB_HOST_DEVICE float& channel(Index c) const { return data[c * stride[1]]; }
  PHUB_HOST_DEVICE Position position(Index i) const {
    return {i / size[1] / size[3] / size[2], i % size[1], i / size[1] / size[3] % size[2],
            i / size[1] % size[3]};
  }
  // The t-th element of a channel.
  PHUB_HOST_DEVICE Position of_channel(Index c, Index t) const {
    return {t / size[3] / size[2], c, t / size[3] % size[2], t % size[3]};
  }
  PHUB_HOST_DEVICE Index of_a_channel() const { return size[0] * size[2] * size[3]; }
};

// Where a window lies.
struct Taps {
  Index rows, columns;
  Index row_stride, column_stride;
  Index row_pad, column_pad;

  PHUB_HOST_DEVICE Index all() const { return rows * columns; }
  // The image's element under a tap; false: it is outside.
  PHUB_HOST_DEVICE bool image_of(const Tensor& image, const Position& output, Index tap,
                                 Position& found) const {
    found.h = output.h * row_stride - row_pad + tap / columns;
    found.w = output.w * column_stride - column_pad + tap % columns;
    return found.h >= 0 && found.h < image.size[2] && found.w >= 0 && found.w < image.size[3];
  }
  // The output whose tap this lies over an image's element; false: there is none.
  PHUB_HOST_DEVICE bool output_of(const Tensor& output, const Position& image, Index tap,
                                  Position& found) const {
    const Index h = image.h + row_pad - tap / columns, w = image.w + column_pad - tap % columns;
    found.h = h / row_stride;
    found.w = w / column_stride;
    return h >= 0 && w >= 0 && h % row_stride == 0 && w % column_stride == 0 &&
           found.h < output.size[2] && found.w < output.size[3];
  }
};

struct Copy {
  Tensor from, to;
  PHUB_HOST_DEVICE Index size() const { return from.elements(); }
  PHUB_HOST_DEVICE void operator()(Index i) const {
    const Position p = from.position(i);
    to.at(p) = from.at(p);
  }
};

struct Set {
  Tensor tensor;
  float value;
  PHUB_HOST_DEVICE Index size() const { return tensor.elements(); }
  PHUB_HOST_DEVICE void operator()(Index i) const { tensor.at(tensor.position(i)) = value; }
};

struct Convolution {
  Tensor image, weights, output;
  Taps taps;

  PHUB_HOST_DEVICE Index per_group() const { return weights.size[1]; }
  PHUB_HOST_DEVICE Index outputs_per_group() const {
    return output.size[1] / (image.size[1] / per_group());
  }
};

struct ConvolveForward : Convolution {
  PHUB_HOST_DEVICE Index size() const { return output.elements(); }
  PHUB_HOST_DEVICE void operator()(Index i) const {
    const Position to = output.position(i);
    const Index first = to.c / outputs_per_group() * per_group();
    double sum = 0.0;
    for (Index tap = 0; tap < taps.all(); ++tap) {
      Position from{to.n, 0, 0, 0};
      if (!taps.image_of(image, to, tap, from)) continue;
      for (Index c = 0; c < per_group(); ++c) {
        from.c = first + c;
        sum += double{image.at(from)} *
               double{weights.at({to.c, c, tap / taps.columns, tap % taps.columns})};
      }
    }
    output.at(to) = static_cast<float>(sum);
  }
};

struct ConvolveData : Convolution {
  PHUB_HOST_DEVICE Index size() const { return image.elements(); }
  PHUB_HOST_DEVICE void operator()(Index i) const {
    const Position to = image.position(i);
    const Index group = to.c / per_group();
    double sum = 0.0;
    for (Index tap = 0; tap < taps.all(); ++tap) {
      Position from{to.n, 0, 0, 0};
      if (!taps.output_of(output, to, tap, from)) continue;
      for (Index k = 0; k < outputs_per_group(); ++k) {
        from.c = group * outputs_per_group() + k;
        sum +=
            double{output.at(from)} * double{weights.at({from.c, to.c - group * per_group(),
                                                         tap / taps.columns, tap % taps.columns})};
      }
    }
    image.at(to) = static_cast<float>(sum);
  }
};

struct ConvolveWeights : Convolution {
  PHUB_HOST_DEVICE Index sums() const { return weights.elements(); }
  PHUB_HOST_DEVICE Index terms() const { return output.of_a_channel(); }
  PHUB_HOST_DEVICE void add(Index sum, Index term, double& first, double&) const {
    const Position weight = weights.position(sum);
    const Position from = output.of_channel(weight.n, term);
    Position pixel{from.n, weight.n / outputs_per_group() * per_group() + weight.c, 0, 0};
    if (!taps.image_of(image, from, weight.h * taps.columns + weight.w, pixel)) return;
    first += double{output.at(from)} * double{image.at(pixel)};
  }
  PHUB_HOST_DEVICE void finish(Index sum, double first, double) const {
    weights.at(weights.position(sum)) = static_cast<float>(first);
  }
};

struct Pointwise {
  PointwiseMode mode;
  Tensor first, second, output;
  PHUB_HOST_DEVICE Index size() const { return output.elements(); }
  PHUB_HOST_DEVICE void operator()(Index i) const {
    const Position p = output.position(i);
    output.at(p) = of(first.at(p), second.at(p));
  }
  PHUB_HOST_DEVICE float of(float a, float b) const {
    switch (mode) {
      case PointwiseMode::kAdd:
        return a + b;
      case PointwiseMode::kSubtract:
        return a - b;
      case PointwiseMode::kMultiply:
        return a * b;
      case PointwiseMode::kRelu:
        return a < 0.0F ? 0.0F : a;  // not a number stays so
      case PointwiseMode::kReluBackward:
        return b > 0.0F ? a : (b <= 0.0F ? 0.0F : b);
    }
    return 0.0F;
  }
};

struct Statistics {
  Tensor x, sum, sum_of_squares;
  PHUB_HOST_DEVICE Index sums() const { return x.size[1]; }
  PHUB_HOST_DEVICE Index terms() const { return x.of_a_channel(); }
  PHUB_HOST_DEVICE void add(Index c, Index term, double& first, double& second) const {
    const auto value = double{x.at(x.of_channel(c, term))};
    first += value;
    second += value * value;
  }
  PHUB_HOST_DEVICE void finish(Index c, double first, double second) const {
    sum.channel(c) = static_cast<float>(first);
    sum_of_squares.channel(c) = static_cast<float>(second);
  }
};

struct BatchMean {
  Tensor x, mean;
  PHUB_HOST_DEVICE Index sums() const { return x.size[1]; }
  PHUB_HOST_DEVICE Index terms() const { return x.of_a_channel(); }
  PHUB_HOST_DEVICE void add(Index c, Index term, double& first, double&) const {
    first += double{x.at(x.of_channel(c, term))};
  }
  PHUB_HOST_DEVICE void finish(Index c, double first, double) const {
    mean.channel(c) = static_cast<float>(first / static_cast<double>(terms()));
  }
};

struct BatchDeviation {
  Tensor x, mean, inverse, epsilon, momentum, running_mean, running_variance, next_mean,
      next_variance;
  PHUB_HOST_DEVICE Index sums() const { return x.size[1]; }
  PHUB_HOST_DEVICE Index terms() const { return x.of_a_channel(); }
  PHUB_HOST_DEVICE void add(Index c, Index term, double& first, double&) const {
    const double off = double{x.at(x.of_channel(c, term))} - double{mean.channel(c)};
    first += off * off;
  }
  PHUB_HOST_DEVICE void finish(Index c, double squares, double) const {
    const auto count = static_cast<double>(terms());
    const double m = double{momentum.channel(0)};
    inverse.channel(c) =
        static_cast<float>(1.0 / std::sqrt(squares / count + double{epsilon.channel(0)}));
    const double unbiased = squares / (terms() > 1 ? count - 1.0 : 1.0);
    next_mean.channel(c) = static_cast<float>((1.0 - m) * double{running_mean.channel(c)} +
                                              m * double{mean.channel(c)});
    next_variance.channel(c) =
        static_cast<float>((1.0 - m) * double{running_variance.channel(c)} + m * unbiased);
  }
};

struct Normalize {
  Tensor x, scale, bias, mean, inverse, y;
  PHUB_HOST_DEVICE Index size() const { return y.elements(); }
  PHUB_HOST_DEVICE void operator()(Index i) const {
    const Position p = y.position(i);
    const float normal = (x.at(p) - mean.channel(p.c)) * inverse.channel(p.c);
    y.at(p) = scale.channel(p.c) * normal + bias.channel(p.c);
  }
};

// Batch normalisation's gradients by scale and bias, and dx = a * dy + b * x + constant.
struct NormGradientSums {
  Tensor dy, x, scale, mean, inverse, dscale, dbias, dy_factor, x_factor, constant;
  PHUB_HOST_DEVICE Index sums() const { return x.size[1]; }
  PHUB_HOST_DEVICE Index terms() const { return x.of_a_channel(); }
  PHUB_HOST_DEVICE void add(Index c, Index term, double& first, double& second) const {
    const Position p = x.of_channel(c, term);
    const auto gradient = double{dy.at(p)};
    first += gradient;
    second += gradient * (double{x.at(p)} - double{mean.channel(c)}) * double{inverse.channel(c)};
  }
  PHUB_HOST_DEVICE void finish(Index c, double first, double second) const {
    const auto count = static_cast<double>(terms());
    const double slope = double{scale.channel(c)} * double{inverse.channel(c)};
    const double b = -slope * double{inverse.channel(c)} * second / count;
    dscale.channel(c) = static_cast<float>(second);
    dbias.channel(c) = static_cast<float>(first);
    dy_factor.channel(c) = static_cast<float>(slope);
    x_factor.channel(c) = static_cast<float>(b);
    constant.channel(c) = static_cast<float>(-slope * first / count - b * double{mean.channel(c)});
  }
};

struct NormGradient {
  Tensor dy, x, dy_factor, x_factor, constant, dx;
  PHUB_HOST_DEVICE Index size() const { return dx.elements(); }
  PHUB_HOST_DEVICE void operator()(Index i) const {
    const Position p = dx.position(i);
    dx.at(p) = static_cast<float>(double{dy_factor.channel(p.c)} * double{dy.at(p)} +
                                  double{x_factor.channel(p.c)} * double{x.at(p)} +
                                  double{constant.channel(p.c)});
  }
};

struct Pooling {
  PoolMode mode;
  Taps taps;
  Tensor image, output, index;
  bool has_index;

  PHUB_HOST_DEVICE double divisor(const Position& at) const {
    if (mode == PoolMode::kAverageWithPadding) return static_cast<double>(taps.all());
    Index inside = 0;
    for (Index tap = 0; tap < taps.all(); ++tap) {
      Position ignored{at.n, at.c, 0, 0};
      if (taps.image_of(image, at, tap, ignored)) ++inside;
    }
    return static_cast<double>(inside);
  }
};

struct PoolForward : Pooling {
  PHUB_HOST_DEVICE Index size() const { return output.elements(); }
  PHUB_HOST_DEVICE void operator()(Index i) const {
    const Position to = output.position(i);
    double sum = 0.0;
    float largest = 0.0F;
    Index where = -1;
    for (Index tap = 0; tap < taps.all(); ++tap) {
      Position from{to.n, to.c, 0, 0};
      if (!taps.image_of(image, to, tap, from)) continue;
      const float value = image.at(from);
      sum += double{value};
      if (where >= 0 && value <= largest) continue;
      largest = value;
      where = tap;
    }
    output.at(to) = mode == PoolMode::kMax ? largest : static_cast<float>(sum / divisor(to));
    if (has_index) index.at(to) = static_cast<float>(where);
  }
};

struct PoolBackward : Pooling {
  PHUB_HOST_DEVICE Index size() const { return image.elements(); }
  PHUB_HOST_DEVICE void operator()(Index i) const {
    const Position to = image.position(i);
    double sum = 0.0;
    for (Index tap = 0; tap < taps.all(); ++tap) {
      Position from{to.n, to.c, 0, 0};
      if (!taps.output_of(output, to, tap, from)) continue;
      if (mode != PoolMode::kMax) {
        sum += double{output.at(from)} / divisor(from);
      } else if (static_cast<Index>(index.at(from)) == tap) {
        sum += double{output.at(from)};
      }
    }
    image.at(to) = static_cast<float>(sum);
  }
};

}  // namespace phub::testing::naive
