#include "worker/cuda/runtime/cuda_export.h"

#include <cuda.h>
#include <dlfcn.h>

#include <cstdint>
#include <memory>

#include "common/memory/memory.h"
#include "worker/cuda/runtime/device.h"

namespace phub::nn::cuda {
namespace {

struct ExportedBlock final : ExportedMemory {
  ~ExportedBlock() override {
    dmabuf.reset();
    cudaFree(allocation);
  }
  void* allocation = nullptr;  // `bytes` begins in it, on a page of the host
};

std::size_t whole_pages(std::size_t bytes) {
  return (bytes + page_bytes() - 1) / page_bytes() * page_bytes();
}

// The driver's library, which the runtime has loaded. It is not linked, as it is not where there is
// no driver. Null: it cannot be had. Never closed.
void* driver() { return dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL); }

// Null if this driver does not have it.
template <typename Function>
Function* driver_function(const char* name) {
  void* const library = driver();
  return library == nullptr ? nullptr : reinterpret_cast<Function*>(dlsym(library, name));
}

// Empty, or why the current device exports none.
std::string obstacle() {
  const auto get_device = driver_function<decltype(cuDeviceGet)>("cuDeviceGet");
  const auto get_attribute =
      driver_function<decltype(cuDeviceGetAttribute)>("cuDeviceGetAttribute");
  int ordinal = 0;
  CUdevice device = 0;
  if (get_device == nullptr || get_attribute == nullptr || cudaGetDevice(&ordinal) != cudaSuccess ||
      get_device(&device, ordinal) != CUDA_SUCCESS) {
    return "the GPU's driver, libcuda.so.1, does not answer";
  }
  int supported = 0;
  const CUresult asked = get_attribute(&supported, CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED, device);
  if (asked == CUDA_SUCCESS && supported != 0) return {};
  return "the GPU's driver exports none";
}

// Addresses and lengths are whole pages of the host, which cuMemGetHandleForAddressRange wants.
void export_range(ExportedBlock& block) {
  block.no_dmabuf = obstacle();
  if (!block.no_dmabuf.empty()) return;
  const auto get_handle =
      driver_function<decltype(cuMemGetHandleForAddressRange)>("cuMemGetHandleForAddressRange");
  if (get_handle == nullptr) {
    block.no_dmabuf = "the GPU's driver is older than CUDA 11.7";
    return;
  }
  int descriptor = -1;
  const CUresult result =
      get_handle(&descriptor, reinterpret_cast<CUdeviceptr>(block.bytes.data()),
                 whole_pages(block.bytes.size()), CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0);
  if (result == CUDA_SUCCESS) {
    block.dmabuf = UniqueFd(descriptor);
    return;
  }
  block.no_dmabuf =
      "cuMemGetHandleForAddressRange failed with error " + std::to_string(static_cast<int>(result));
}

// The streams do not wait for the default one, nor does an adapter: cleared on return.
Status make_room(ExportedBlock& block, std::size_t bytes, const std::string& context) {
  const std::size_t allocated = whole_pages(bytes) + page_bytes();
  PHUB_RETURN_IF_ERROR(cuda_status(cudaMalloc(&block.allocation, allocated), context));
  PHUB_RETURN_IF_ERROR(cuda_status(cudaMemset(block.allocation, 0, allocated), context));
  PHUB_RETURN_IF_ERROR(cuda_status(cudaStreamSynchronize(nullptr), context));
  const auto start = whole_pages(reinterpret_cast<std::uintptr_t>(block.allocation));
  block.bytes = {reinterpret_cast<std::byte*>(start), bytes};
  return {};
}

}  // namespace

Result<ExportedMemoryPointer> export_device_memory(std::size_t bytes, const std::string& what) {
  auto block = std::make_shared<ExportedBlock>();
  const std::string context = std::to_string(bytes >> 20U) + " MiB on the GPU for " + what;
  PHUB_RETURN_IF_ERROR(make_room(*block, bytes, context));
  export_range(*block);
  return ExportedMemoryPointer(std::move(block));
}

}  // namespace phub::nn::cuda
