// What graphs are planned for: the device of a handle, or a device that is only described.
//
// The second needs no GPU (cuDNN 9.8 and later): engines are chosen and compiled, nothing can run.
// Owned by the backend or a test; outlives the plans. One thread.
#pragma once

#include <cudnn_graph.h>

#include <memory>
#include <string>

#include "common/base/status.h"
#include "worker/cuda/cudnn/descriptor.h"

namespace phub::nn::cuda {

class CudnnTarget {
 public:
  // The calling thread's current device. Work is queued on its default stream until set_stream.
  static Result<std::unique_ptr<CudnnTarget>> current_device(const CudnnLibrary& library);
  // `json` as cuDNN writes it (data/h200.json).
  static Result<std::unique_ptr<CudnnTarget>> described(const CudnnLibrary& library,
                                                        const std::string& json);

  CudnnTarget(const CudnnTarget&) = delete;
  CudnnTarget& operator=(const CudnnTarget&) = delete;
  ~CudnnTarget();

  const CudnnLibrary& library() const { return library_; }
  cudnnHandle_t handle() const { return handle_; }  // null when only described
  Status set_stream(cudaStream_t stream);

  // The device in cuDNN's JSON, to plan for it elsewhere.
  Result<std::string> describe() const;

  // Names the device in the descriptor of heuristics, an engine or a plan.
  void name_in(CudnnDescriptor& descriptor, cudnnBackendAttributeName_t attribute) const;

 private:
  explicit CudnnTarget(const CudnnLibrary& library) : library_(library) {}

  const CudnnLibrary& library_;
  cudnnHandle_t handle_ = nullptr;
  DescriptorPointer properties_;  // null with a handle
};

}  // namespace phub::nn::cuda
