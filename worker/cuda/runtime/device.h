// CUDA's runtime with our errors: statuses, and memory of the current device.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <string>
#include <string_view>

#include "common/base/status.h"
#include "worker/cuda/runtime/runtime.h"

namespace phub::nn::cuda {

// kResourceExhausted when the device's memory is, else kInternal: "what: CUDA's words". A call that
// fails also leaves its error for the next one to find; this takes it.
inline Status cuda_status(cudaError_t error, std::string_view what) {
  if (error == cudaSuccess) [[likely]]
    return {};
  static_cast<void>(cudaGetLastError());
  const Code code = error == cudaErrorMemoryAllocation ? Code::kResourceExhausted : Code::kInternal;
  return {code, std::string(what) + ": " + cudaGetErrorString(error)};
}

// Zeros, on return: not every stream waits for the default one.
inline Status clear(const Block& block, const std::string& what) {
  if (block.bytes == 0) return {};
  PHUB_RETURN_IF_ERROR(cuda_status(cudaMemset(block.address, 0, block.bytes), what));
  return cuda_status(cudaStreamSynchronize(nullptr), what);
}

// Of the current device's memory, cleared to zeros. `what` is for errors: "activations of 256
// images".
Result<BlockPointer> allocate(std::size_t bytes, const std::string& what);

}  // namespace phub::nn::cuda
