// The runtime of a GPU: CUDA's streams and graphs.
//
// Belongs to the thread that made it, whose current device is the runtime's from then on, until
// another one is made or made current.
#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <cstdint>
#include <memory>
#include <string>

#include "worker/cuda/runtime/runtime.h"

namespace phub::nn::cuda {

class CudaRuntime : public Runtime {
 public:
  // Errors: kNotFound without a GPU or a driver, kInvalidArgument names `field`, both with the
  // cure; kFailedPrecondition for a GPU older than the kernels.
  static Result<std::unique_ptr<CudaRuntime>> create(std::uint32_t device,
                                                     const std::string& field = "train.device");
  ~CudaRuntime() override;

  cudaStream_t cuda_stream(Stream stream) const {
    return streams_[static_cast<std::size_t>(stream)];
  }
  const std::string& device_name() const { return device_name_; }

  Status make_current() override;
  Result<BlockPointer> device_memory(std::size_t bytes, const std::string& what) override;
  Result<BlockPointer> pinned_memory(std::size_t bytes, const std::string& what) override;
  Result<BlockPointer> register_host(std::span<std::byte> pages, bool read_only) override;
  Result<ExportedMemoryPointer> exported_memory(std::size_t bytes,
                                                const std::string& what) override;
  Result<EventPointer> make_event() override;
  Status copy(void* to, const void* from, std::size_t bytes, Stream stream) override;
  Status launch(const ExecutorKernel& kernel, Stream stream) override;
  Status record(Event& event, Stream stream) override;
  Status wait(Stream stream, const Event& event) override;
  Status synchronise(const Event& event) override;
  Status synchronise(Stream stream) override;
  Result<bool> idle() override;
  Status begin_capture() override;
  Result<CapturedGraphPointer> end_capture() override;
  Status launch(const CapturedGraph& graph) override;

 private:
  CudaRuntime() = default;

  std::uint32_t device_ = 0;
  std::string device_name_;
  std::array<cudaStream_t, kStreams> streams_ = {};
};

}  // namespace phub::nn::cuda
