// The GPUs of a worker, each with a program of its own, in the order of train.devices.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "worker/cuda/program/cuda_program.h"

namespace phub::nn::cuda {

struct GpuRank {
  std::uint32_t device = 0;
  std::unique_ptr<CudaProgram> program{};
};

// Errors name the GPU.
inline Status of_gpu(const GpuRank& gpu, const Status& status) {
  return status.ok() ? status : status.with_context("GPU " + std::to_string(gpu.device));
}

// Calls work(rank, program) for each in turn, whose device is then the thread's, until one fails.
template <typename Work>
Status on_each(const std::vector<GpuRank>& gpus, const Work& work) {
  for (std::size_t rank = 0; rank < gpus.size(); ++rank) {
    CudaProgram& program = *gpus[rank].program;
    Status status = program.runtime().make_current();
    if (status.ok()) status = work(rank, program);
    if (!status.ok()) return of_gpu(gpus[rank], status);
  }
  return {};
}

}  // namespace phub::nn::cuda
