#include "worker/cuda/lowered/op_graph.h"

#include <functional>
#include <numeric>

#include "common/base/check.h"

namespace phub::nn::cuda {

std::int64_t Operand::elements() const {
  return std::accumulate(dimensions.begin(), dimensions.end(), std::int64_t{1},
                         std::multiplies<>());
}

Dimensions packed_strides(const Dimensions& dimensions) {
  if (dimensions.size() == 4) {
    const std::int64_t row = dimensions[3] * dimensions[1];
    return {dimensions[2] * row, 1, row, dimensions[1]};
  }
  Dimensions strides(dimensions.size(), 1);
  for (std::size_t i = dimensions.size(); i-- > 1;) strides[i - 1] = strides[i] * dimensions[i];
  return strides;
}

OperandId OpGraph::add_operand(Operand operand) {
  PHUB_CHECK(operand.dimensions.size() == operand.strides.size(), "a stride for each dimension");
  operands_.push_back(std::move(operand));
  return static_cast<OperandId>(operands_.size() - 1);
}

OperandId OpGraph::device(const Dimensions& dimensions, ElementType type) {
  return add_operand({dimensions, packed_strides(dimensions), type, Storage::kDevice, 0.0F});
}

OperandId OpGraph::virtual_like(OperandId operand, ElementType type) {
  Operand copy = operands_[operand];
  copy.type = type;
  copy.storage = Storage::kVirtual;
  return add_operand(std::move(copy));
}

OperandId OpGraph::constant(float value) {
  const Dimensions one = {1, 1, 1, 1};
  return add_operand({one, one, ElementType::kFloat32, Storage::kConstant, value});
}

}  // namespace phub::nn::cuda
