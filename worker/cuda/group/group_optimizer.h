// Updates on several GPUs: each keeps all parameters and updates them alike, from gradients that
// are summed by an all-reduce.
//
// Owned by the group of GPUs; its thread. The GPUs outlive it.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "common/base/dtype.h"
#include "common/base/status.h"
#include "worker/cuda/executor/finite_check.h"
#include "worker/cuda/executor/own_optimizer.h"
#include "worker/cuda/group/gpu_ranks.h"

namespace phub::nn::cuda {

class GroupOptimizer {
 public:
  // As OwnOptimizer.
  static Result<std::unique_ptr<GroupOptimizer>> create(
      GpuRanks& gpus, std::span<const std::vector<float>> initial);

  // kCompute: a step, unless a gradient or a sum is not finite.
  Status update(const OwnRule& rule);

 private:
  explicit GroupOptimizer(GpuRanks& gpus)
      : gpus_(gpus), type_(gpus.first().runner().type_of(gpus.first().runner().lowered().output)) {}

  Status prepare(DevicePasses& passes, std::span<const std::vector<float>> initial);

  GpuRanks& gpus_;
  DataType type_;                                   // of gradients
  std::vector<std::unique_ptr<OwnOptimizer>> own_;  // by rank
  std::vector<std::unique_ptr<FiniteCheck>> checks_;
};

}  // namespace phub::nn::cuda
