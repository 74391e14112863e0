#include "worker/cuda/cudnn/operation_graph.h"

#include <utility>

#include "worker/cuda/cudnn/operations.h"

namespace phub::nn::cuda {
namespace {

// Every buffer of the step starts at a multiple of this (memory_plan.h gives more).
constexpr std::int64_t kAlignment = 16;

Result<DescriptorPointer> make_tensor(const CudnnLibrary& library, const Operand& operand,
                                      OperandId id) {
  auto tensor = std::make_unique<CudnnDescriptor>(library, CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  tensor->type(CUDNN_ATTR_TENSOR_DATA_TYPE, cudnn_type(operand.type))
      .integers(CUDNN_ATTR_TENSOR_DIMENSIONS, operand.dimensions)
      .integers(CUDNN_ATTR_TENSOR_STRIDES, operand.strides)
      .integer(CUDNN_ATTR_TENSOR_UNIQUE_ID, unique_id(id))
      .integer(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, kAlignment)
      .boolean(CUDNN_ATTR_TENSOR_IS_VIRTUAL, operand.storage == Storage::kVirtual)
      .boolean(CUDNN_ATTR_TENSOR_IS_BY_VALUE, operand.storage == Storage::kConstant);
  PHUB_RETURN_IF_ERROR(tensor->finalize("operand " + std::to_string(id)));
  return tensor;
}

}  // namespace

cudnnDataType_t cudnn_type(ElementType type) {
  switch (type) {
    case ElementType::kFloat32:
      return CUDNN_DATA_FLOAT;
    case ElementType::kFloat16:
      return CUDNN_DATA_HALF;
    case ElementType::kBfloat16:
      return CUDNN_DATA_BFLOAT16;
    case ElementType::kInt8:
      return CUDNN_DATA_INT8;
  }
  return CUDNN_DATA_FLOAT;
}

Result<std::unique_ptr<CudnnGraph>> CudnnGraph::create(const CudnnLibrary& library,
                                                       const OpGraph& graph, cudnnHandle_t handle) {
  std::unique_ptr<CudnnGraph> built(new CudnnGraph());
  const auto failed = [&graph](const Status& status) {
    return status.with_context("cuDNN graph \"" + graph.name() + "\"");
  };
  for (OperandId id = 0; id < graph.operands().size(); ++id) {
    auto tensor = make_tensor(library, graph.operand(id), id);
    if (!tensor) return failed(tensor.error());
    built->tensors_.push_back(std::move(*tensor));
  }
  const OperationBuilder builder{library, graph, built->tensors_, built->parts_};
  std::vector<cudnnBackendDescriptor_t> raw;
  for (const Operation& operation : graph.operations()) {
    auto made = std::visit(builder, operation);
    if (!made) return failed(made.error());
    raw.push_back((*made)->raw());
    built->operations_.push_back(std::move(*made));
  }
  built->graph_ =
      std::make_unique<CudnnDescriptor>(library, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  built->graph_->descriptors(CUDNN_ATTR_OPERATIONGRAPH_OPS, raw);
  if (handle != nullptr) {
    built->graph_->set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, handle);
  }
  if (const Status status = built->graph_->finalize("the operations together"); !status.ok()) {
    return failed(status);
  }
  return built;
}

}  // namespace phub::nn::cuda
