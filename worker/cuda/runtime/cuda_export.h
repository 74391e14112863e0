// Device memory as a dma-buf, for network adapters to register (GPUDirect RDMA).
#pragma once

#include <cstddef>
#include <string>

#include "common/base/status.h"
#include "common/memory/exported_memory.h"

namespace phub::nn::cuda {

// Of the current device, cleared; freed when nobody holds it. Where it cannot be exported it is
// made all the same, and says why. Error: kResourceExhausted, with `what`.
Result<ExportedMemoryPointer> export_device_memory(std::size_t bytes, const std::string& what);

}  // namespace phub::nn::cuda
