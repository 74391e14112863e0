#include "worker/cuda/cudnn/target.h"

#include <cstdint>

namespace phub::nn::cuda {

Result<std::unique_ptr<CudnnTarget>> CudnnTarget::current_device(const CudnnLibrary& library) {
  std::unique_ptr<CudnnTarget> target(new CudnnTarget(library));
  PHUB_RETURN_IF_ERROR(library.status(
      library->create(&target->handle_),
      "cuDNN cannot use the GPU (does nvidia-smi show it, and is its driver new enough?)"));
  return target;
}

Result<std::unique_ptr<CudnnTarget>> CudnnTarget::described(const CudnnLibrary& library,
                                                            const std::string& json) {
  std::unique_ptr<CudnnTarget> target(new CudnnTarget(library));
  target->properties_ =
      std::make_unique<CudnnDescriptor>(library, CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
  target->properties_->set(CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR,
                           static_cast<std::int64_t>(json.size()), json.data());
  PHUB_RETURN_IF_ERROR(target->properties_->finalize("the description of a device"));
  return target;
}

CudnnTarget::~CudnnTarget() {
  if (handle_ != nullptr) library_->destroy(handle_);
}

Status CudnnTarget::set_stream(cudaStream_t stream) {
  return library_.status(library_->set_stream(handle_, stream), "cuDNN's stream");
}

Result<std::string> CudnnTarget::describe() const {
  CudnnDescriptor properties(library_, CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
  const CudnnDescriptor* source = properties_.get();
  if (source == nullptr) {
    properties.set(CUDNN_ATTR_DEVICEPROP_HANDLE, CUDNN_TYPE_HANDLE, handle_);
    PHUB_RETURN_IF_ERROR(properties.finalize("the device's properties"));
    source = &properties;
  }
  constexpr auto kJson = CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION;
  PHUB_ASSIGN_OR_RETURN(const std::int64_t size, source->get(kJson, CUDNN_TYPE_CHAR, 0, nullptr));
  std::string json(static_cast<std::size_t>(size), '\0');
  PHUB_ASSIGN_OR_RETURN(const std::int64_t written,
                        source->get(kJson, CUDNN_TYPE_CHAR, size, json.data()));
  json.resize(static_cast<std::size_t>(written));
  return json;
}

void CudnnTarget::name_in(CudnnDescriptor& descriptor,
                          cudnnBackendAttributeName_t attribute) const {
  if (properties_ != nullptr) descriptor.descriptor(attribute, *properties_);
}

}  // namespace phub::nn::cuda
