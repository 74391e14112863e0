// Which layers of a network are done while the data passes through a neighbour's kernel.
//
// In training, a convolution that a batch normalisation follows also sums what it writes, or a
// kernel behind it does. For images a kernel always does, as cuDNN's only engine with sums is slow
// there. The normalisation is then a multiplication and an addition, which the next convolution
// does while it reads ("virtual": its output is never stored), or the Add at the end of a residual
// block. Backward, the convolution that reads such a tensor last also undoes the ReLU and sums what
// batch normalisation's backward needs. As NVIDIA's MLPerf ResNet-50 does it; what cuDNN 9.19
// offers on sm_90 decides: virtual outputs and the sums backward need fp16, no groups, and no 1 x 1
// kernel with a stride; bf16 has the sums of forward only.
//
// A max pooling that alone reads a normalisation with a ReLU does all three, forward and backward,
// in kernels of our own: between the convolution's output and the pooling's nothing is stored, nor
// between their gradients. Of both types. Pure functions.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "common/base/dtype.h"
#include "worker/nn/graph/graph.h"

namespace phub::nn::cuda {

// What can be done in a neighbour's kernel or in one of its own, each for itself: the parts of
// fusion that fusion_search.h chooses. In the order in which it looks at them: what needs another
// stands before that.
enum class FusionKind : std::uint8_t {
  kRelu,      // Convolution, InnerProduct: does the Relu behind it
  kPrologue,  // BatchNorm: done by the convolution that reads it; needs kBackwardSums, kStatistics
              // and kSums
  kAddend,    // BatchNorm: done by the Add that reads it; needs kSums
  kPool,      // BatchNorm: done with its ReLU by the max Pool that reads it; needs kSums
  kBackwardSums,  // Convolution: its data gradient makes the sums of the normalisation before it
  kMask,          // Convolution, InnerProduct: its data gradient adds others' and undoes the ReLU
  kStatistics,    // Convolution: its graph makes the sums of what it writes, not a kernel behind it
  kSums,          // BatchNorm: made of such sums; else it is one operation
};

struct FusionBlock {
  FusionKind kind = FusionKind::kStatistics;
  std::size_t layer = 0;

  auto operator<=>(const FusionBlock&) const = default;  // NOLINT(modernize-use-nullptr)
};

struct LayerFusion {
  bool statistics = false;  // Convolution: its graph writes the sums that the next layer wants
  bool statistics_apart = false;  // Convolution: a kernel behind its graph does
  bool from_statistics = false;   // BatchNorm: takes them
  bool is_virtual = false;        // BatchNorm: done by the convolution that reads it
  bool in_add = false;            // BatchNorm: done by the Add that reads it; needs kSums
  bool in_pool = false;           // BatchNorm: done by the Pool that reads it
  bool relu_inside = false;       // Convolution, InnerProduct: does the Relu that reads it
};

class FusionPlan {
 public:
  // Nothing is fused.
  explicit FusionPlan(const Graph& graph);
  // What the type allows, without `unfused`. A block that needs one of those is not fused either.
  FusionPlan(const Graph& graph, DataType compute_type, std::span<const FusionBlock> unfused = {});

  // What is fused, by kind and then by layer.
  std::vector<FusionBlock> blocks() const;

  const LayerFusion& of(std::size_t layer) const { return layers_[layer]; }
  const std::vector<std::size_t>& readers(TensorId tensor) const { return readers_[tensor]; }

  // Whether the gradient that this convolution writes can be added to what is there, and masked by
  // a ReLU, in the same kernel; and whether batch normalisation's sums can be had with it.
  bool data_gradient_takes_more(std::size_t layer) const;
  bool data_gradient_sums(std::size_t layer) const;
  // The same behind an Add, where the ReLU saw a sum: not where the window has a stride.
  bool data_gradient_sums_behind_add(std::size_t layer) const;

 private:
  bool is_allowed(FusionKind kind, std::size_t layer) const;
  const Layer* only_reader(TensorId tensor) const;
  void fuse_statistics(std::size_t convolution);
  void fuse_batch_norm(std::size_t batch_norm);

  const Graph& graph_;
  bool enabled_ = false;
  bool sums_backward_ = false;        // the compute type has them
  std::vector<FusionBlock> unfused_;  // sorted
  std::vector<LayerFusion> layers_;
  std::vector<std::vector<std::size_t>> readers_;  // by tensor
};

}  // namespace phub::nn::cuda
