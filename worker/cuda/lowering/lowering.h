// From a network (worker/nn/graph/graph.h) to steps of cuDNN graphs and own kernels.
//
// Two ways that compute the same: unfused, where each layer has its own graphs (always possible,
// and the other's oracle), and fused, where what lies between two convolutions is done while data
// passes (fusion.h). Any mixture of the two, by block, computes the same too. Pure functions.
#pragma once

#include <cstdint>
#include <vector>

#include "common/base/dtype.h"
#include "common/base/status.h"
#include "worker/cuda/lowered/lowered.h"
#include "worker/cuda/lowering/fusion.h"
#include "worker/nn/graph/graph.h"

namespace phub::nn::cuda {

struct LoweringOptions {
  std::uint32_t batch = 1;
  DataType compute_type = DataType::kFloat16;
  bool fuse = true;
  std::vector<FusionBlock> unfused = {};  // nevertheless (fusion_search.h chooses them)
  bool input_gradient = false;            // also the gradient by the network's input (for tests)
};

// Errors: kInvalidArgument names the field or the layer: a batch of 0, fp32 as the compute type, or
// a grouped convolution whose channels are no multiples of 8.
Result<Lowered> lower(const Graph& graph, const LoweringOptions& options);

}  // namespace phub::nn::cuda
