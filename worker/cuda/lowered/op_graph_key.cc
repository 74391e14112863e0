#include <initializer_list>

#include "worker/cuda/lowered/op_graph.h"

namespace phub::nn::cuda {
namespace {

void append(std::string& text, const Dimensions& values) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (i > 0) text += ',';
    text += std::to_string(values[i]);
  }
}

std::string text_of(const Operand& operand) {
  std::string text(name_of(operand.type));
  if (operand.storage == Storage::kConstant) return text + " constant";
  if (operand.storage == Storage::kVirtual) text += " virtual";
  text += '[';
  append(text, operand.dimensions);
  text += ']';
  if (operand.strides != packed_strides(operand.dimensions)) {
    text += "/[";
    append(text, operand.strides);
    text += ']';
  }
  return text;
}

std::string call(const char* what, std::initializer_list<OperandId> operands) {
  std::string text = std::string(what) + '(';
  const char* separator = "";
  for (const OperandId id : operands) {
    text += separator + std::to_string(id);
    separator = " ";
  }
  return text + ')';
}

std::string text_of(const Pair& pair) {
  return std::to_string(pair[0]) + 'x' + std::to_string(pair[1]);
}

const char* word(ConvolutionOp::Direction direction) {
  switch (direction) {
    case ConvolutionOp::Direction::kForward:
      return "conv";
    case ConvolutionOp::Direction::kBackwardData:
      return "conv_data";
    case ConvolutionOp::Direction::kBackwardWeights:
      return "conv_weights";
  }
  return "?";
}

const char* word(PointwiseMode mode) {
  switch (mode) {
    case PointwiseMode::kAdd:
      return "add";
    case PointwiseMode::kSubtract:
      return "subtract";
    case PointwiseMode::kMultiply:
      return "multiply";
    case PointwiseMode::kRelu:
      return "relu";
    case PointwiseMode::kReluBackward:
      return "relu_backward";
  }
  return "?";
}

std::string word(PoolMode mode) {
  switch (mode) {
    case PoolMode::kMax:
      return "max_pool";
    case PoolMode::kAverageWithPadding:
      return "average_pool_with_padding";
    case PoolMode::kAverageWithoutPadding:
      return "average_pool";
  }
  return "?";
}

struct OperationText {
  std::string operator()(const ConvolutionOp& op) const {
    return call(word(op.direction), {op.image, op.weights, op.output}) + text_of(op.window);
  }
  std::string operator()(const PointwiseOp& op) const {
    return call(word(op.mode), {op.first, op.second, op.output});
  }
  std::string operator()(const GenerateStatisticsOp& op) const {
    return call("statistics", {op.x, op.sum, op.sum_of_squares});
  }
  std::string operator()(const BatchNormForwardOp& op) const {
    return call("bn", {op.x, op.scale, op.bias, op.epsilon, op.momentum, op.running_mean,
                       op.running_variance, op.y, op.mean, op.inverse_deviation,
                       op.next_running_mean, op.next_running_variance});
  }
  std::string operator()(const BatchNormBackwardOp& op) const {
    return call("bn_backward",
                {op.dy, op.x, op.scale, op.mean, op.inverse_deviation, op.dx, op.dscale, op.dbias});
  }
  std::string operator()(const BatchNormBackwardWeightsOp& op) const {
    return call("bn_backward_weights",
                {op.dy, op.x, op.scale, op.mean, op.inverse_deviation, op.dscale, op.dbias,
                 op.dy_factor, op.x_factor, op.constant});
  }
  std::string operator()(const PoolForwardOp& op) const {
    return call(word(op.mode).c_str(), {op.x, op.y, op.index}) + text_of(op.window);
  }
  std::string operator()(const PoolBackwardOp& op) const {
    return call((word(op.mode) + "_backward").c_str(), {op.dy, op.dx, op.index}) +
           text_of(op.window);
  }
  std::string operator()(const MatmulOp& op) const { return call("matmul", {op.a, op.b, op.c}); }
};

}  // namespace

std::string text_of(const Window2d& window) {
  return " window " + text_of(window.size) + " stride " + text_of(window.stride) + " pad " +
         text_of(window.pad_before) + ' ' + text_of(window.pad_after);
}

std::string OpGraph::key() const {
  std::string text;
  for (std::size_t id = 0; id < operands_.size(); ++id) {
    text += (id > 0 ? " " : "") + std::to_string(id) + ':' + text_of(operands_[id]);
  }
  for (const Operation& operation : operations_)
    text += "; " + std::visit(OperationText{}, operation);
  return text;
}

}  // namespace phub::nn::cuda
