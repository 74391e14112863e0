// CUDA's runtime with our errors: statuses, and memory on the device.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "common/base/status.h"

namespace phub::nn::cuda {

// kResourceExhausted when the device's memory is, else kInternal: "what: CUDA's words".
inline Status cuda_status(cudaError_t error, std::string_view what) {
  if (error == cudaSuccess) [[likely]]
    return {};
  const Code code = error == cudaErrorMemoryAllocation ? Code::kResourceExhausted : Code::kInternal;
  return {code, std::string(what) + ": " + cudaGetErrorString(error)};
}

// A block of the current device's memory, cleared to zeros. One owner.
class DeviceMemory {
 public:
  // `what` is for errors: "activations of 256 images".
  static Result<std::unique_ptr<DeviceMemory>> allocate(std::size_t bytes,
                                                        const std::string& what) {
    std::unique_ptr<DeviceMemory> memory(new DeviceMemory(bytes));
    const std::string context = std::to_string(bytes >> 20U) + " MiB on the GPU for " + what;
    if (bytes == 0) return memory;
    PHUB_RETURN_IF_ERROR(cuda_status(cudaMalloc(&memory->address_, bytes), context));
    PHUB_RETURN_IF_ERROR(memory->clear(context));
    return memory;
  }

  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;
  ~DeviceMemory() { cudaFree(address_); }

  // Zeros, on return: not every stream waits for the default one.
  Status clear(const std::string& what) {
    if (bytes_ == 0) return {};
    PHUB_RETURN_IF_ERROR(cuda_status(cudaMemset(address_, 0, bytes_), what));
    return cuda_status(cudaStreamSynchronize(nullptr), what);
  }

  void* at(std::size_t offset) const { return static_cast<std::byte*>(address_) + offset; }
  std::size_t bytes() const { return bytes_; }

 private:
  explicit DeviceMemory(std::size_t bytes) : bytes_(bytes) {}

  void* address_ = nullptr;
  std::size_t bytes_;
};

}  // namespace phub::nn::cuda
