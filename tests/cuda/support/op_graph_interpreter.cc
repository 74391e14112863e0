#include "tests/cuda/support/op_graph_interpreter.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "common/base/check.h"

namespace phub::testing {
namespace {

using namespace nn::cuda;  // NOLINT(google-build-using-namespace)
using Index = std::int64_t;

// An operand with memory. Dimensions of 1 are broadcast.
struct View {
  const Operand* operand = nullptr;
  float* data = nullptr;

  Index dim(std::size_t axis) const { return operand->dimensions[axis]; }
  float& at(Index n, Index c, Index h, Index w) const {
    const Dimensions& d = operand->dimensions;
    const Dimensions& s = operand->strides;
    const Index offset = (d[0] == 1 ? 0 : n * s[0]) + (d[1] == 1 ? 0 : c * s[1]) +
                         (d[2] == 1 ? 0 : h * s[2]) + (d[3] == 1 ? 0 : w * s[3]);
    return data[offset];
  }
  float& channel(Index c) const { return at(0, c, 0, 0); }
};

template <typename Visit>
void for_each(const View& view, Visit visit) {
  for (Index n = 0; n < view.dim(0); ++n) {
    for (Index h = 0; h < view.dim(2); ++h) {
      for (Index w = 0; w < view.dim(3); ++w) {
        for (Index c = 0; c < view.dim(1); ++c) visit(n, c, h, w);
      }
    }
  }
}

void clear(const View& view) {
  for_each(view, [&](Index n, Index c, Index h, Index w) { view.at(n, c, h, w) = 0.0F; });
}

// Calls visit(input row, input column, position in the window) for what lies inside the image.
template <typename Visit>
void for_each_tap(const Window2d& window, const View& image, Pair output, Visit visit) {
  for (Index r = 0; r < window.size[0]; ++r) {
    const Index h = output[0] * window.stride[0] - window.pad_before[0] + r;
    if (h < 0 || h >= image.dim(2)) continue;
    for (Index s = 0; s < window.size[1]; ++s) {
      const Index w = output[1] * window.stride[1] - window.pad_before[1] + s;
      if (w >= 0 && w < image.dim(3)) visit(h, w, r * window.size[1] + s);
    }
  }
}

struct Run {
  const std::vector<View>& views;

  void operator()(const ConvolutionOp& op) const {
    const View &image = views[op.image], &weights = views[op.weights], &output = views[op.output];
    using Direction = ConvolutionOp::Direction;
    if (op.direction == Direction::kBackwardData) clear(image);
    if (op.direction == Direction::kBackwardWeights) clear(weights);
    const Index per_group = weights.dim(1);
    const Index outputs_per_group = output.dim(1) / (image.dim(1) / per_group);
    for_each(output, [&](Index n, Index k, Index y, Index x) {
      const Index first = k / outputs_per_group * per_group;
      double sum = 0.0;
      float& out = output.at(n, k, y, x);
      for_each_tap(op.window, image, {y, x}, [&](Index h, Index w, Index tap) {
        const Index r = tap / op.window.size[1], s = tap % op.window.size[1];
        for (Index c = 0; c < per_group; ++c) {
          float& pixel = image.at(n, first + c, h, w);
          float& weight = weights.at(k, c, r, s);
          if (op.direction == Direction::kForward) sum += double{pixel} * double{weight};
          if (op.direction == Direction::kBackwardData) pixel += out * weight;
          if (op.direction == Direction::kBackwardWeights) weight += out * pixel;
        }
      });
      if (op.direction == Direction::kForward) out = static_cast<float>(sum);
    });
  }

  static float apply(PointwiseMode mode, float first, float second) {
    switch (mode) {
      case PointwiseMode::kAdd:
        return first + second;
      case PointwiseMode::kSubtract:
        return first - second;
      case PointwiseMode::kMultiply:
        return first * second;
      case PointwiseMode::kRelu:
        return std::isnan(first) ? first : std::max(first, 0.0F);
      case PointwiseMode::kReluBackward:
        return std::isnan(second) ? second : (second > 0.0F ? first : 0.0F);
    }
    return 0.0F;
  }

  void operator()(const PointwiseOp& op) const {
    const View &first = views[op.first], &second = views[op.second], &output = views[op.output];
    for_each(output, [&](Index n, Index c, Index h, Index w) {
      output.at(n, c, h, w) = apply(op.mode, first.at(n, c, h, w), second.at(n, c, h, w));
    });
  }

  void operator()(const GenerateStatisticsOp& op) const {
    const View& x = views[op.x];
    for (Index c = 0; c < x.dim(1); ++c) {
      double sum = 0.0, squares = 0.0;
      for_channel(x, c, [&](double value) {
        sum += value;
        squares += value * value;
      });
      views[op.sum].channel(c) = static_cast<float>(sum);
      views[op.sum_of_squares].channel(c) = static_cast<float>(squares);
    }
  }

  template <typename Visit>
  static void for_channel(const View& x, Index c, Visit visit) {
    for (Index n = 0; n < x.dim(0); ++n) {
      for (Index h = 0; h < x.dim(2); ++h) {
        for (Index w = 0; w < x.dim(3); ++w) visit(double{x.at(n, c, h, w)});
      }
    }
  }

  void operator()(const BatchNormForwardOp& op) const {
    const View &x = views[op.x], &y = views[op.y];
    const Index count = x.dim(0) * x.dim(2) * x.dim(3);
    for (Index c = 0; c < x.dim(1); ++c) {
      double sum = 0.0, deviations = 0.0;
      for_channel(x, c, [&](double value) { sum += value; });
      const double mean = sum / static_cast<double>(count);
      for_channel(x, c, [&](double value) { deviations += (value - mean) * (value - mean); });
      const double variance = deviations / static_cast<double>(count);
      const double inverse = 1.0 / std::sqrt(variance + double{views[op.epsilon].channel(0)});
      views[op.mean].channel(c) = static_cast<float>(mean);
      views[op.inverse_deviation].channel(c) = static_cast<float>(inverse);
      const float momentum = views[op.momentum].channel(0);
      const auto unbiased =
          static_cast<float>(deviations / static_cast<double>(std::max<Index>(count - 1, 1)));
      views[op.next_running_mean].channel(c) =
          (1.0F - momentum) * views[op.running_mean].channel(c) +
          momentum * static_cast<float>(mean);
      views[op.next_running_variance].channel(c) =
          (1.0F - momentum) * views[op.running_variance].channel(c) + momentum * unbiased;
    }
    for_each(y, [&](Index n, Index c, Index h, Index w) {
      const float normal =
          (x.at(n, c, h, w) - views[op.mean].channel(c)) * views[op.inverse_deviation].channel(c);
      y.at(n, c, h, w) = views[op.scale].channel(c) * normal + views[op.bias].channel(c);
    });
  }

  // The gradients by scale and bias, and dx = a * dy + b * x + constant.
  struct Linear {
    double a, b, constant, dscale, dbias;
  };
  template <typename Op>
  Linear linear(const Op& op, Index c) const {
    const View &x = views[op.x], &dy = views[op.dy];
    const double mean = double{views[op.mean].channel(c)};
    const double inverse = double{views[op.inverse_deviation].channel(c)};
    double dscale = 0.0, dbias = 0.0;
    for (Index n = 0; n < x.dim(0); ++n) {
      for (Index h = 0; h < x.dim(2); ++h) {
        for (Index w = 0; w < x.dim(3); ++w) {
          const double gradient = double{dy.at(n, c, h, w)};
          dbias += gradient;
          dscale += gradient * (double{x.at(n, c, h, w)} - mean) * inverse;
        }
      }
    }
    const double slope = double{views[op.scale].channel(c)} * inverse;
    const auto count = static_cast<double>(x.dim(0) * x.dim(2) * x.dim(3));
    const double b = -slope * inverse * dscale / count;
    return {slope, b, -slope * dbias / count - b * mean, dscale, dbias};
  }

  void operator()(const BatchNormBackwardOp& op) const {
    const View &x = views[op.x], &dy = views[op.dy], &dx = views[op.dx];
    for (Index c = 0; c < x.dim(1); ++c) {
      const Linear l = linear(op, c);
      views[op.dscale].channel(c) = static_cast<float>(l.dscale);
      views[op.dbias].channel(c) = static_cast<float>(l.dbias);
      for (Index n = 0; n < x.dim(0); ++n) {
        for (Index h = 0; h < x.dim(2); ++h) {
          for (Index w = 0; w < x.dim(3); ++w) {
            dx.at(n, c, h, w) = static_cast<float>(l.a * double{dy.at(n, c, h, w)} +
                                                   l.b * double{x.at(n, c, h, w)} + l.constant);
          }
        }
      }
    }
  }

  void operator()(const BatchNormBackwardWeightsOp& op) const {
    for (Index c = 0; c < views[op.x].dim(1); ++c) {
      const Linear l = linear(op, c);
      views[op.dscale].channel(c) = static_cast<float>(l.dscale);
      views[op.dbias].channel(c) = static_cast<float>(l.dbias);
      views[op.dy_factor].channel(c) = static_cast<float>(l.a);
      views[op.x_factor].channel(c) = static_cast<float>(l.b);
      views[op.constant].channel(c) = static_cast<float>(l.constant);
    }
  }

  static double divisor(PoolMode mode, const Window2d& window, Index taps) {
    return static_cast<double>(
        mode == PoolMode::kAverageWithPadding ? window.size[0] * window.size[1] : taps);
  }
  static Index taps_at(const Window2d& window, const View& image, Pair output) {
    Index taps = 0;
    for_each_tap(window, image, output, [&](Index, Index, Index) { ++taps; });
    return taps;
  }

  void operator()(const PoolForwardOp& op) const {
    const View &x = views[op.x], &y = views[op.y];
    for_each(y, [&](Index n, Index c, Index h, Index w) {
      double sum = 0.0;
      float largest = -std::numeric_limits<float>::infinity();
      Index where = 0;
      for_each_tap(op.window, x, {h, w}, [&](Index row, Index column, Index tap) {
        const float value = x.at(n, c, row, column);
        sum += double{value};
        if (value > largest) where = tap;
        largest = std::max(largest, value);
      });
      const double taps = divisor(op.mode, op.window, taps_at(op.window, x, {h, w}));
      y.at(n, c, h, w) = op.mode == PoolMode::kMax ? largest : static_cast<float>(sum / taps);
      if (op.index != op.x) views[op.index].at(n, c, h, w) = static_cast<float>(where);
    });
  }

  void operator()(const PoolBackwardOp& op) const {
    const View &dy = views[op.dy], &dx = views[op.dx];
    clear(dx);
    for_each(dy, [&](Index n, Index c, Index h, Index w) {
      const double taps = divisor(op.mode, op.window, taps_at(op.window, dx, {h, w}));
      for_each_tap(op.window, dx, {h, w}, [&](Index row, Index column, Index tap) {
        const float gradient = dy.at(n, c, h, w);
        if (op.mode != PoolMode::kMax) {
          dx.at(n, c, row, column) += static_cast<float>(double{gradient} / taps);
        } else if (static_cast<float>(tap) == views[op.index].at(n, c, h, w)) {
          dx.at(n, c, row, column) += gradient;
        }
      });
    });
  }

  void operator()(const MatmulOp&) const { PHUB_CHECK(false, "no network is lowered to it"); }
};

}  // namespace

void interpret(const OpGraph& graph, std::span<const std::span<float>> memory) {
  std::vector<std::vector<float>> own(graph.operands().size());
  std::vector<View> views;
  std::size_t next = 0;
  for (std::size_t id = 0; id < own.size(); ++id) {
    const Operand& operand = graph.operand(static_cast<OperandId>(id));
    if (operand.storage == Storage::kDevice) {
      PHUB_CHECK(static_cast<Index>(memory[next].size()) == operand.elements(),
                 "an operand's memory has its elements");
      views.push_back({&operand, memory[next++].data()});
      continue;
    }
    const float initial = operand.storage == Storage::kConstant
                              ? operand.constant
                              : std::numeric_limits<float>::quiet_NaN();
    own[id].assign(static_cast<std::size_t>(operand.elements()), initial);
    views.push_back({&operand, own[id].data()});
  }
  for (const Operation& operation : graph.operations()) std::visit(Run{views}, operation);
}

}  // namespace phub::testing
