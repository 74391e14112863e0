// Running statistics of a group of GPUs. The first GPU's count: they are copied to the others
// before an evaluation, and after the host has read (and perhaps changed) them.
//
// Owned by the group of GPUs; its thread. The GPUs outlive it.
#pragma once

#include <vector>

#include "common/base/status.h"
#include "worker/cuda/group/gpu_ranks.h"
#include "worker/nn/executor.h"

namespace phub::nn::cuda {

class GroupStatistics {
 public:
  explicit GroupStatistics(GpuRanks& gpus) : gpus_(gpus) {}

  // The first GPU's, which the host may change until the next forward. Waits for the GPUs.
  Result<std::vector<StateBuffer>> read();
  // Before a forward: gives every GPU the first one's, if they may differ and it matters.
  Status share_if_needed(bool trains);
  // After a forward in training.
  void trained() { differ_ = differ_ || gpus_.count() > 1; }

 private:
  Status share();

  GpuRanks& gpus_;
  std::vector<StateBuffer> read_;  // while the host has them
  bool differ_ = false;            // the other GPUs have others than the first
};

}  // namespace phub::nn::cuda
