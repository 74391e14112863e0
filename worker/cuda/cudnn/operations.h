// Operations of an OpGraph as cuDNN's operation descriptors. For operation_graph.cc.
#pragma once

#include <span>
#include <vector>

#include "worker/cuda/cudnn/descriptor.h"
#include "worker/cuda/lowered/op_graph.h"

namespace phub::nn::cuda {

// What one operation is made with. `parts` receives the descriptors that it refers to.
struct OperationBuilder {
  const CudnnLibrary& library;
  const OpGraph& graph;
  std::span<const DescriptorPointer> tensors;
  std::vector<DescriptorPointer>& parts;

  using Built = Result<DescriptorPointer>;

  Built operator()(const ConvolutionOp& op) const;
  Built operator()(const PointwiseOp& op) const;
  Built operator()(const GenerateStatisticsOp& op) const;
  Built operator()(const BatchNormForwardOp& op) const;
  Built operator()(const BatchNormBackwardOp& op) const;
  Built operator()(const BatchNormBackwardWeightsOp& op) const;
  Built operator()(const PoolForwardOp& op) const;
  Built operator()(const PoolBackwardOp& op) const;
  Built operator()(const MatmulOp& op) const;

  const CudnnDescriptor& tensor(OperandId id) const { return *tensors[id]; }
  // A finalized part that lives as long as the graph.
  Result<const CudnnDescriptor*> keep(DescriptorPointer part, const char* what) const;
};

}  // namespace phub::nn::cuda
