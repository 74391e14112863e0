// An OpGraph (op_graph.h) as cuDNN's descriptors, finalized and ready to be planned.
//
// Owned by whoever plans it; the library outlives it. One thread.
#pragma once

#include <cudnn_graph.h>

#include <memory>
#include <vector>

#include "common/base/status.h"
#include "worker/cuda/cudnn/descriptor.h"
#include "worker/cuda/lowered/op_graph.h"

namespace phub::nn::cuda {

cudnnDataType_t cudnn_type(ElementType type);

// An operand's number in variant packs; cuDNN keeps 0 for itself.
constexpr std::int64_t unique_id(OperandId id) { return static_cast<std::int64_t>(id) + 1; }

class CudnnGraph {
 public:
  // `handle` is null when nothing will be executed. Errors carry the graph's name.
  static Result<std::unique_ptr<CudnnGraph>> create(const CudnnLibrary& library,
                                                    const OpGraph& graph, cudnnHandle_t handle);

  const CudnnDescriptor& descriptor() const { return *graph_; }

 private:
  CudnnGraph() = default;

  std::vector<DescriptorPointer> tensors_;  // by OperandId
  std::vector<DescriptorPointer> parts_;    // windows, modes
  std::vector<DescriptorPointer> operations_;
  DescriptorPointer graph_;
};

}  // namespace phub::nn::cuda
