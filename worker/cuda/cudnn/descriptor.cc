#include "worker/cuda/cudnn/descriptor.h"

#include <string>

namespace phub::nn::cuda {
namespace {

std::string number(int value) { return std::to_string(value); }

}  // namespace

CudnnDescriptor::CudnnDescriptor(const CudnnLibrary& library, cudnnBackendDescriptorType_t type)
    : library_(library),
      status_(library.status(library->create_descriptor(type, &descriptor_),
                             "cuDNN makes no descriptor of type " + number(type))) {}

CudnnDescriptor::~CudnnDescriptor() {
  if (descriptor_ != nullptr) library_->destroy_descriptor(descriptor_);
}

CudnnDescriptor& CudnnDescriptor::set(cudnnBackendAttributeName_t name,
                                      cudnnBackendAttributeType_t type, std::int64_t count,
                                      const void* values) {
  if (status_.ok()) {
    status_ = library_.status(library_->set_attribute(descriptor_, name, type, count, values),
                              "attribute " + number(name));
  }
  return *this;
}

CudnnDescriptor& CudnnDescriptor::descriptors(cudnnBackendAttributeName_t name,
                                              std::span<const cudnnBackendDescriptor_t> values) {
  return set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, static_cast<std::int64_t>(values.size()),
             values.data());
}

Status CudnnDescriptor::finalize(const std::string& what) {
  if (status_.ok()) status_ = library_.status(library_->finalize(descriptor_), "refused");
  return status_.ok() ? status_ : status_.with_context(what);
}

Result<std::int64_t> CudnnDescriptor::get_integer(cudnnBackendAttributeName_t name) const {
  std::int64_t value = 0;
  PHUB_ASSIGN_OR_RETURN(const std::int64_t count, get(name, CUDNN_TYPE_INT64, 1, &value));
  if (count != 1) return Status(Code::kInternal, "cuDNN: no attribute " + number(name));
  return value;
}

Result<std::int64_t> CudnnDescriptor::get(cudnnBackendAttributeName_t name,
                                          cudnnBackendAttributeType_t type, std::int64_t count,
                                          void* values) const {
  std::int64_t written = 0;
  PHUB_RETURN_IF_ERROR(
      library_.status(library_->get_attribute(descriptor_, name, type, count, &written, values),
                      "cuDNN tells no attribute " + number(name)));
  return written;
}

Result<std::vector<DescriptorPointer>> get_descriptors(const CudnnLibrary& library,
                                                       const CudnnDescriptor& of,
                                                       cudnnBackendAttributeName_t name,
                                                       cudnnBackendDescriptorType_t type) {
  PHUB_ASSIGN_OR_RETURN(const std::int64_t count,
                        of.get(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 0, nullptr));
  std::vector<DescriptorPointer> found;
  std::vector<cudnnBackendDescriptor_t> raw;
  for (std::int64_t i = 0; i < count; ++i) {
    found.push_back(std::make_unique<CudnnDescriptor>(library, type));
    raw.push_back(found.back()->raw());
  }
  if (count == 0) return found;
  PHUB_ASSIGN_OR_RETURN(const std::int64_t written,
                        of.get(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, count, raw.data()));
  found.resize(static_cast<std::size_t>(written));
  return found;
}

}  // namespace phub::nn::cuda
