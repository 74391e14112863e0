// Divides the input of a batch among the GPUs of a group: images, labels and what dropout draws.
//
// Owned by the group of GPUs; its thread. The GPUs outlive it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "common/base/status.h"
#include "worker/cuda/group/gpu_ranks.h"
#include "worker/nn/executor.h"

namespace phub::nn::cuda {

// What dropout of GPU `rank` draws from, if the group's is `noise` (Executor::set_noise). The first
// GPU draws from `noise` itself.
std::uint64_t noise_of(std::uint64_t noise, std::size_t rank);

class GroupInput final : public ByteInput {
 public:
  explicit GroupInput(GpuRanks& gpus) : gpus_(gpus) {}

  // Images of the whole batch.
  std::uint32_t batch() const {
    return gpus_.first().options().batch * static_cast<std::uint32_t>(gpus_.count());
  }
  std::size_t elements() const { return gpus_.first().input_elements() * gpus_.count(); }

  // As Executor's. Errors name the GPU.
  Status load(std::span<const float> images, const Labels& labels);
  Status load_bytes(const ByteImages& images, const Labels& labels) override;
  void set_noise(std::uint64_t noise);

 private:
  Labels labels_of(std::size_t rank, const Labels& labels) const;

  GpuRanks& gpus_;
};

}  // namespace phub::nn::cuda
