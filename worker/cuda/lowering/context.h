// What lower() keeps while it walks over a network. For the files beside it.
//
// Values and gradients are written once: adding a contribution to a gradient makes a new buffer, so
// that no kernel reads and writes the same memory; the memory plan shares what is dead.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "worker/cuda/lowered/lowered.h"
#include "worker/cuda/lowering/fusion.h"
#include "worker/cuda/lowering/lowering.h"
#include "worker/nn/graph/graph.h"

namespace phub::nn::cuda {

// A batch normalisation in training: what its readers and its backward need.
struct BatchNormState {
  BufferId x = kNoBuffer;
  BufferId scale = kNoBuffer, bias = kNoBuffer;          // parameters
  BufferId sum = kNoBuffer, sum_of_squares = kNoBuffer;  // from the convolution that wrote x
  BufferId mean = kNoBuffer, inverse_deviation = kNoBuffer;
  BufferId factor = kNoBuffer, offset = kNoBuffer;      // y = factor * x + offset, fp32
  BufferId factor16 = kNoBuffer, offset16 = kNoBuffer;  // the same in the compute type
  BufferId running_mean = kNoBuffer, running_variance = kNoBuffer;
  // From the kernel that wrote the gradient, if that could: by the normalisation's own output.
  BufferId dy = kNoBuffer, dy_factor = kNoBuffer, x_factor = kNoBuffer, constant = kNoBuffer;
  BufferId taken = kNoBuffer;  // in_pool: x where the pooling found its maxima
};

struct TensorState {
  BufferId value = kNoBuffer;           // none if virtual
  std::vector<BufferId> contributions;  // to its gradient, so far
  BufferId masked = kNoBuffer;          // the whole gradient, behind its producer's ReLU
  std::size_t writers_left = 0;         // readers that have not contributed yet
};

struct LoweringContext {
  LoweringContext(const Graph& graph, const LoweringOptions& options);

  const Graph& graph;
  const LoweringOptions& options;
  ElementType type;  // of the computation
  FusionPlan fusion;
  Lowered out;
  std::vector<TensorState> tensors;          // by TensorId
  std::vector<BatchNormState> norms;         // by layer; empty for others
  std::vector<BufferId> indices;             // by layer: where maxima were
  std::vector<std::size_t> first_parameter;  // by layer: its key
  std::vector<Step>* steps = nullptr;        // where to
  bool training = true;                      // of `steps`

  // What of the plan holds for the steps being written: inference has its own.
  LayerFusion fused(std::size_t layer) const;
  const Layer& layer(std::size_t index) const { return graph.layers()[index]; }
  const ParameterLayout& parameter(std::size_t layer, std::size_t index) const {
    return out.parameters[first_parameter[layer] + index];
  }
  // N, C', H, W.
  Dimensions dimensions(TensorId tensor) const;
  std::int64_t padded_channels(TensorId tensor) const;

  BufferId scratch(std::string name, Dimensions dimensions, ElementType element_type);
  BufferId scratch(std::string name, TensorId tensor) {
    return scratch(std::move(name), dimensions(tensor), type);
  }
  // fp32 [1, C', 1, 1].
  BufferId per_channel(std::string name, TensorId tensor) {
    return scratch(std::move(name), {1, padded_channels(tensor), 1, 1}, ElementType::kFloat32);
  }
  void run(std::size_t layer, const std::string& what, KernelStep step);

  bool wants_gradient(TensorId tensor) const { return tensor > 0 || options.input_gradient; }
  // Appends the gradient that one of the tensor's readers has written.
  void contribute(TensorId tensor, BufferId gradient);
  // The gradient behind the ReLU whose output the tensor is.
  BufferId masked_gradient(std::size_t layer, TensorId tensor);
  // The sum of all contributions, by a kernel where there are several; kNoBuffer if there is none.
  BufferId gradient(std::size_t layer, TensorId tensor);
};

void lower_convolution_forward(LoweringContext& context, std::size_t layer);
void lower_convolution_backward(LoweringContext& context, std::size_t layer);
void lower_batch_norm_forward(LoweringContext& context, std::size_t layer);
void lower_batch_norm_backward(LoweringContext& context, std::size_t layer);
// Of a normalisation in_pool: its own and the pooling's.
void lower_pooled_norm_backward(LoweringContext& context, std::size_t batch_norm);
void lower_add_forward(LoweringContext& context, std::size_t layer);
void lower_add_backward(LoweringContext& context, std::size_t layer);
void lower_relu_forward(LoweringContext& context, std::size_t layer);
void lower_relu_backward(LoweringContext& context, std::size_t layer);
void lower_pool_forward(LoweringContext& context, std::size_t layer);
void lower_pool_backward(LoweringContext& context, std::size_t layer);
void lower_shape_forward(LoweringContext& context,
                         std::size_t layer);  // Concat, Subsample, Dropout
void lower_shape_backward(LoweringContext& context, std::size_t layer);

// Into how many parts a sum over so many rows is cut: enough to fill a large device, none of a few
// rows only.
std::int64_t parts_of(std::int64_t rows);

// One cuDNN graph being written: buffers become operands as they are named.
class GraphWriter {
 public:
  GraphWriter(LoweringContext& context, std::size_t layer, const std::string& what);

  OperandId use(BufferId buffer);
  OperandId use(BufferId buffer, const Dimensions& dimensions);  // the same memory, seen otherwise
  OperandId virtual_like(OperandId operand, ElementType type) {
    return graph_.virtual_like(operand, type);
  }
  OperandId constant(float value) { return graph_.constant(value); }
  void add(Operation operation) { graph_.add(operation); }
  // Into a new virtual operand of the first one's dimensions.
  OperandId pointwise(PointwiseMode mode, OperandId first, OperandId second,
                      ElementType element_type = ElementType::kFloat32);
  // x * factor + offset, of channels.
  OperandId scaled(const BatchNormState& norm);
  // Appends the step.
  void finish();

 private:
  LoweringContext& context_;
  std::size_t layer_;
  std::string name_;
  OpGraph graph_;
  std::vector<BufferId> buffers_;
  std::vector<std::pair<BufferId, OperandId>> used_;
};

}  // namespace phub::nn::cuda
