// One descriptor of cuDNN's backend API, with its attributes set in a chain.
//
// The first error sticks and is told by finalize(), so that what describes an operation reads as
// the operation. Owned by one thread; the library outlives it.
#pragma once

#include <cudnn_graph.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "worker/cuda/cudnn/library.h"

namespace phub::nn::cuda {

class CudnnDescriptor {
 public:
  CudnnDescriptor(const CudnnLibrary& library, cudnnBackendDescriptorType_t type);
  CudnnDescriptor(const CudnnDescriptor&) = delete;
  CudnnDescriptor& operator=(const CudnnDescriptor&) = delete;
  ~CudnnDescriptor();

  CudnnDescriptor& set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                       std::int64_t count, const void* values);
  // One value of an enumeration, or of another type that `type` names.
  template <typename Value>
  CudnnDescriptor& set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                       Value value) {
    return set(name, type, 1, &value);
  }
  CudnnDescriptor& integer(cudnnBackendAttributeName_t name, std::int64_t value) {
    return set(name, CUDNN_TYPE_INT64, 1, &value);
  }
  CudnnDescriptor& integers(cudnnBackendAttributeName_t name,
                            std::span<const std::int64_t> values) {
    return set(name, CUDNN_TYPE_INT64, static_cast<std::int64_t>(values.size()), values.data());
  }
  CudnnDescriptor& boolean(cudnnBackendAttributeName_t name, bool value) {
    return set(name, CUDNN_TYPE_BOOLEAN, 1, &value);
  }
  CudnnDescriptor& type(cudnnBackendAttributeName_t name, cudnnDataType_t value) {
    return set(name, CUDNN_TYPE_DATA_TYPE, 1, &value);
  }
  CudnnDescriptor& descriptor(cudnnBackendAttributeName_t name, const CudnnDescriptor& value) {
    return set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &value.descriptor_);
  }
  CudnnDescriptor& descriptors(cudnnBackendAttributeName_t name,
                               std::span<const cudnnBackendDescriptor_t> values);

  // `what` is told in front of the error.
  Status finalize(const std::string& what);

  // REQUIRES: finalized.
  Result<std::int64_t> get_integer(cudnnBackendAttributeName_t name) const;
  // How many elements of `type` were written to `values`, at most values.size().
  template <typename Value>
  Result<std::int64_t> get(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                           std::span<Value> values) const {
    return get(name, type, static_cast<std::int64_t>(values.size()), values.data());
  }
  Result<std::int64_t> get(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                           std::int64_t count, void* values) const;

  cudnnBackendDescriptor_t raw() const { return descriptor_; }

 private:
  const CudnnLibrary& library_;
  cudnnBackendDescriptor_t descriptor_ = nullptr;
  Status status_;
};

using DescriptorPointer = std::unique_ptr<CudnnDescriptor>;

// Empty descriptors of one type for `name` to be read into, as many as it has.
Result<std::vector<DescriptorPointer>> get_descriptors(const CudnnLibrary& library,
                                                       const CudnnDescriptor& of,
                                                       cudnnBackendAttributeName_t name,
                                                       cudnnBackendDescriptorType_t type);

}  // namespace phub::nn::cuda
