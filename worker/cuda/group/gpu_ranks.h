// The GPUs of a worker, each with an executor of its own, in the order of train.devices.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "worker/cuda/executor/cuda_executor.h"

namespace phub::nn::cuda {

struct GpuRank {
  std::uint32_t device = 0;
  std::unique_ptr<CudaExecutor> executor{};
};

// Errors name the GPU.
inline Status of_gpu(const GpuRank& gpu, const Status& status) {
  return status.ok() ? status : status.with_context("GPU " + std::to_string(gpu.device));
}

// Calls work(rank, executor) for each in turn, whose device is then the thread's, until one fails.
template <typename Work>
Status on_each(const std::vector<GpuRank>& gpus, const Work& work) {
  for (std::size_t rank = 0; rank < gpus.size(); ++rank) {
    CudaExecutor& executor = *gpus[rank].executor;
    Status status = executor.runtime().make_current();
    if (status.ok()) status = work(rank, executor);
    if (!status.ok()) return of_gpu(gpus[rank], status);
  }
  return {};
}

}  // namespace phub::nn::cuda
