// Updates on the device: fp32 parameters and state that never leave it.
//
// Owned by the executor; its thread.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "common/base/status.h"
#include "worker/cuda/executor/plain_parameters.h"
#include "worker/cuda/runtime/runtime.h"
#include "worker/nn/executor.h"
#include "worker/nn/graph/graph.h"

namespace phub::nn::cuda {

class OwnOptimizer {
 public:
  // Starts from `initial`, an array for each key, and has them where cuDNN reads them on return.
  // `gradient_type`: what gradients are rounded to before they are added.
  static Result<std::unique_ptr<OwnOptimizer>> create(Runtime& runtime, const LoweredRunner& runner,
                                                      std::span<const ParameterSpec> parameters,
                                                      std::span<const std::vector<float>> initial,
                                                      DataType gradient_type);

  // kCompute: a step, unless a gradient is not finite: then *not_finite (the device's) becomes 1.
  // Errors: kInvalidArgument for a rule without parameters (sum, mean).
  Status update(const OwnRule& rule, int* not_finite);

  // The same in two parts, for who adds up the gradients of several devices between them: all
  // gradients into their array, in gradient_type; and the step from there.
  Status publish(int* not_finite);
  Status apply(const OwnRule& rule, int* not_finite);
  const Block& gradients() const { return plain_->gradient_array(); }

 private:
  explicit OwnOptimizer(Runtime& runtime) : runtime_(runtime) {}

  Status make_tables(std::span<const ParameterSpec> parameters, DataType gradient_type);
  // For rules with a second array of state, before the first step of one.
  Status add_squares();

  Runtime& runtime_;
  std::unique_ptr<PlainParameters> plain_;
  std::vector<kernels::cuda::OptimizedTensor> table_;  // what tensors_ has
  BlockPointer velocities_, tensors_, squares_, trust_;
  BlockPointer means_of_squares_;  // null: no rule has asked for them
  BlockPointer updates_, factors_;
};

}  // namespace phub::nn::cuda
