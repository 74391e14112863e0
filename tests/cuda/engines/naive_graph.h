// Runs a graph (worker/cuda/lowered/op_graph.h) by its operations' definitions, on the host or a
// device.
//
// `Machine` has the arrays and does the work: `make(elements)` gives an Array of so many floats
// with `data()`, `each(work)` runs work(i) for all i below work.size(), `sum(work)` works out
// sums (naive_operations.h); each call comes after what was called before.
#pragma once

#include <list>
#include <span>
#include <variant>
#include <vector>

#include "common/base/check.h"
#include "tests/cuda/engines/naive_operations.h"

namespace phub::testing::naive {

inline Tensor tensor_of(float* data, const nn::cuda::Dimensions& size,
                        const nn::cuda::Dimensions& strides) {
  Tensor tensor{.data = data, .size = {}, .stride = {}};
  for (std::size_t axis = 0; axis < 4; ++axis) {
    tensor.size[axis] = size[axis];
    tensor.stride[axis] = size[axis] == 1 ? 0 : strides[axis];
  }
  return tensor;
}

inline Taps taps_of(const nn::cuda::Window2d& window) {
  return {window.size[0],   window.size[1],       window.stride[0],
          window.stride[1], window.pad_before[0], window.pad_before[1]};
}

template <typename Machine>
class Graph {
 public:
  // `memory`: of each kDevice operand, in their order.
  Graph(Machine& machine, const nn::cuda::OpGraph& graph, std::span<float* const> memory)
      : machine_(machine), graph_(graph) {
    std::size_t next = 0;
    for (const nn::cuda::Operand& operand : graph.operands()) {
      const bool is_there = operand.storage == nn::cuda::Storage::kDevice;
      float* data = is_there ? memory[next++] : own(operand.elements());
      tensors_.push_back(tensor_of(data, operand.dimensions, operand.strides));
      if (operand.storage == nn::cuda::Storage::kConstant) {
        machine.each(Set{tensors_.back(), operand.constant});
      }
    }
  }
  void run() {
    for (const nn::cuda::Operation& operation : graph_.operations()) std::visit(*this, operation);
  }

  void operator()(const nn::cuda::ConvolutionOp& op) {
    using Direction = nn::cuda::ConvolutionOp::Direction;
    Convolution all{tensors_[op.image], tensors_[op.weights], tensors_[op.output],
                    taps_of(op.window)};
    if (op.direction == Direction::kBackwardWeights) return machine_.sum(ConvolveWeights{all});
    if (op.direction == Direction::kBackwardData) return machine_.each(ConvolveData{all});
    // Neighbouring threads make neighbouring outputs: their weights are to be neighbours too.
    Tensor near = all.weights;
    near.data = own(near.elements());
    const Index strides[] = {1, near.size[0], near.size[0] * near.size[1],
                             near.size[0] * near.size[1] * near.size[2]};
    for (std::size_t axis = 0; axis < 4; ++axis) {
      near.stride[axis] = near.size[axis] == 1 ? 0 : strides[axis];
    }
    machine_.each(Copy{all.weights, near});
    all.weights = near;
    machine_.each(ConvolveForward{all});
  }
  void operator()(const nn::cuda::PointwiseOp& op) {
    machine_.each(Pointwise{op.mode, tensors_[op.first], tensors_[op.second], tensors_[op.output]});
  }
  void operator()(const nn::cuda::GenerateStatisticsOp& op) {
    machine_.sum(Statistics{tensors_[op.x], tensors_[op.sum], tensors_[op.sum_of_squares]});
  }
  void operator()(const nn::cuda::BatchNormForwardOp& op) {
    const auto& t = tensors_;
    machine_.sum(BatchMean{t[op.x], t[op.mean]});
    machine_.sum(BatchDeviation{t[op.x], t[op.mean], t[op.inverse_deviation], t[op.epsilon],
                                t[op.momentum], t[op.running_mean], t[op.running_variance],
                                t[op.next_running_mean], t[op.next_running_variance]});
    machine_.each(
        Normalize{t[op.x], t[op.scale], t[op.bias], t[op.mean], t[op.inverse_deviation], t[op.y]});
  }
  void operator()(const nn::cuda::BatchNormBackwardOp& op) {
    const auto& t = tensors_;
    Tensor factors[3];
    for (Tensor& factor : factors) {
      factor = t[op.scale];
      factor.data = own(factor.elements());
    }
    machine_.sum(NormGradientSums{t[op.dy], t[op.x], t[op.scale], t[op.mean],
                                  t[op.inverse_deviation], t[op.dscale], t[op.dbias], factors[0],
                                  factors[1], factors[2]});
    machine_.each(NormGradient{t[op.dy], t[op.x], factors[0], factors[1], factors[2], t[op.dx]});
  }
  void operator()(const nn::cuda::BatchNormBackwardWeightsOp& op) {
    const auto& t = tensors_;
    machine_.sum(NormGradientSums{t[op.dy], t[op.x], t[op.scale], t[op.mean],
                                  t[op.inverse_deviation], t[op.dscale], t[op.dbias],
                                  t[op.dy_factor], t[op.x_factor], t[op.constant]});
  }
  void operator()(const nn::cuda::PoolForwardOp& op) {
    machine_.each(PoolForward{{op.mode, taps_of(op.window), tensors_[op.x], tensors_[op.y],
                               tensors_[op.index], op.index != op.x}});
  }
  void operator()(const nn::cuda::PoolBackwardOp& op) {
    machine_.each(PoolBackward{{op.mode, taps_of(op.window), tensors_[op.dx], tensors_[op.dy],
                                tensors_[op.index], op.index != op.dy}});
  }
  void operator()(const nn::cuda::MatmulOp&) { PHUB_CHECK(false, "no network is lowered to it"); }

 private:
  float* own(Index elements) {
    return arrays_.emplace_back(machine_.make(static_cast<std::size_t>(elements))).data();
  }

  Machine& machine_;
  const nn::cuda::OpGraph& graph_;
  std::vector<Tensor> tensors_;                // by operand
  std::list<typename Machine::Array> arrays_;  // of what has no memory of its own
};

}  // namespace phub::testing::naive
