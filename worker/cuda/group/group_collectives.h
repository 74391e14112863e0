// The collectives of a plug-in's GPUs: NCCL's, if the plug-in was built with NCCL's header.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "worker/cuda/group/collectives.h"
#include "worker/cuda/runtime/cuda_runtime.h"
#include "worker/nn/plugin.h"

namespace phub::nn::cuda {

struct GroupDevice {
  std::uint32_t device = 0;
  CudaRuntime* runtime = nullptr;  // outlives the collectives
};

// Whether NCCL's library is there: for before the GPUs are prepared, which can take minutes. Errors
// as below, but NCCL's.
Status check_collectives(const DeviceExecutorOptions& options);

// Opens NCCL's library and connects the GPUs. Errors: kNotFound, kFailedPrecondition
// (nccl_library.h); kFailedPrecondition from a plug-in without NCCL, with the cure; NCCL's.
Result<std::unique_ptr<Collectives>> make_collectives(const std::vector<GroupDevice>& devices,
                                                      const DeviceExecutorOptions& options);

}  // namespace phub::nn::cuda
