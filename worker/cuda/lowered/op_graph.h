// A cuDNN operation graph as data: operands, and the operations between them.
//
// A value without cuDNN's types, so that lowering (lowering.h) can be built, printed and
// interpreted (tests/cuda/support/op_graph_interpreter.h) where there is no CUDA.
// worker/cuda/cudnn/operation_graph.h makes cuDNN's own of it. Built once, then read from any
// thread.
// Operands of 4 dimensions are N, C, H, W, stored as NHWC; of 3, they are batch, rows, columns.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "worker/cuda/lowered/element_type.h"

namespace phub::nn::cuda {

using OperandId = std::uint32_t;

// Where an operand lives.
enum class Storage : std::uint8_t {
  kDevice,    // memory that is named at execution
  kVirtual,   // nowhere: handed on inside a fused kernel
  kConstant,  // one fp32 on the host, fixed when the graph is planned
};

using Dimensions = std::vector<std::int64_t>;

struct Operand {
  Dimensions dimensions;
  Dimensions strides;  // in elements
  ElementType type = ElementType::kFloat32;
  Storage storage = Storage::kDevice;
  float constant = 0.0F;

  std::int64_t elements() const;

  bool operator==(const Operand&) const = default;
};

// Rows, columns.
using Pair = std::array<std::int64_t, 2>;

struct Window2d {
  Pair size = {1, 1};
  Pair stride = {1, 1};
  Pair pad_before = {0, 0};
  Pair pad_after = {0, 0};  // the last output may reach beyond it, or not to its end

  bool operator==(const Window2d&) const = default;
};

// Cross-correlation. Weights are K, C / groups, R, S; groups follow from the dimensions.
struct ConvolutionOp {
  enum class Direction : std::uint8_t { kForward, kBackwardData, kBackwardWeights };
  Direction direction = Direction::kForward;
  OperandId image = 0;    // x, or dx where the direction writes it
  OperandId weights = 0;  // w, or dw
  OperandId output = 0;   // y, or dy
  Window2d window;

  bool operator==(const ConvolutionOp&) const = default;
};

// Missing dimensions of the second operand are broadcast.
enum class PointwiseMode : std::uint8_t {
  kAdd,
  kSubtract,
  kMultiply,
  kRelu,          // of the first operand; there is no second
  kReluBackward,  // first where second > 0, else 0
};

struct PointwiseOp {
  PointwiseMode mode = PointwiseMode::kAdd;
  OperandId first = 0;
  OperandId second = 0;  // REQUIRES: equal to `first` where the mode has no second
  OperandId output = 0;

  bool operator==(const PointwiseOp&) const = default;
};

// Per channel over N, H, W: the sum of x and of its squares.
struct GenerateStatisticsOp {
  OperandId x = 0, sum = 0, sum_of_squares = 0;

  bool operator==(const GenerateStatisticsOp&) const = default;
};

// Training: y = scale * (x - mean) * inverse_deviation + bias with the batch's mean and
// 1 / sqrt(variance + epsilon), which are kept for backward. The running statistics become
// (1 - momentum) * before + momentum * batch, with the unbiased variance.
struct BatchNormForwardOp {
  OperandId x = 0, scale = 0, bias = 0, epsilon = 0, momentum = 0, running_mean = 0,
            running_variance = 0;
  OperandId y = 0, mean = 0, inverse_deviation = 0, next_running_mean = 0,
            next_running_variance = 0;

  bool operator==(const BatchNormForwardOp&) const = default;
};

struct BatchNormBackwardOp {
  OperandId dy = 0, x = 0, scale = 0, mean = 0, inverse_deviation = 0;
  OperandId dx = 0, dscale = 0, dbias = 0;

  bool operator==(const BatchNormBackwardOp&) const = default;
};

// The reductions of batch normalisation's backward, and what makes dx of them without another:
// dx = dy_factor * dy + x_factor * x + constant, per channel.
struct BatchNormBackwardWeightsOp {
  OperandId dy = 0, x = 0, scale = 0, mean = 0, inverse_deviation = 0;
  OperandId dscale = 0, dbias = 0, dy_factor = 0, x_factor = 0, constant = 0;

  bool operator==(const BatchNormBackwardWeightsOp&) const = default;
};

enum class PoolMode : std::uint8_t { kMax, kAverageWithPadding, kAverageWithoutPadding };

// `index` (int8, of y's shape) says where in its window a maximum was; equal to `x` for averages.
struct PoolForwardOp {
  PoolMode mode = PoolMode::kMax;
  OperandId x = 0, y = 0, index = 0;
  Window2d window;

  bool operator==(const PoolForwardOp&) const = default;
};

struct PoolBackwardOp {
  PoolMode mode = PoolMode::kMax;
  OperandId dy = 0, dx = 0, index = 0;  // `index` equals `dy` for averages
  Window2d window;

  bool operator==(const PoolBackwardOp&) const = default;
};

struct MatmulOp {
  OperandId a = 0, b = 0, c = 0;

  bool operator==(const MatmulOp&) const = default;
};

using Operation = std::variant<ConvolutionOp, PointwiseOp, GenerateStatisticsOp, BatchNormForwardOp,
                               BatchNormBackwardOp, BatchNormBackwardWeightsOp, PoolForwardOp,
                               PoolBackwardOp, MatmulOp>;

class OpGraph {
 public:
  // The name is for people: it is no part of the key.
  explicit OpGraph(std::string name) : name_(std::move(name)) {}

  OperandId add_operand(Operand operand);
  // NHWC without gaps for 4 dimensions, row-major for others.
  OperandId device(const Dimensions& dimensions, ElementType type);
  OperandId virtual_like(OperandId operand, ElementType type);
  OperandId constant(float value);
  void add(Operation operation) { operations_.push_back(operation); }

  const std::string& name() const { return name_; }
  const std::vector<Operand>& operands() const { return operands_; }
  const Operand& operand(OperandId id) const { return operands_[id]; }
  const std::vector<Operation>& operations() const { return operations_; }

  // Everything that decides which engine is fastest, in one line: operands with types, dimensions,
  // strides where they are not the usual ones, operations with windows. Equal keys, equal graphs.
  std::string key() const;
  // Whether the keys are equal, without making them.
  bool is_same(const OpGraph& other) const {
    return operands_ == other.operands_ && operations_ == other.operations_;
  }

 private:
  std::string name_;
  std::vector<Operand> operands_;
  std::vector<Operation> operations_;
};

// " window 3x3 stride 2x2 pad 1x1 1x1".
std::string text_of(const Window2d& window);

// Of 4 dimensions N, C, H, W: those of NHWC without gaps; of others: row-major.
Dimensions packed_strides(const Dimensions& dimensions);

}  // namespace phub::nn::cuda
