// How an adapter comes to read a GPU's memory (GPUDirect RDMA): by one of two ways, which depend on
// the adapter, its driver, the kernel and the GPU's driver, and are tried in order. Set-up only.
#pragma once

#include <cstdint>
#include <string>

#include "common/base/status.h"
#include "common/memory/exported_memory.h"
#include "common/transport/verbs/device/objects.h"

namespace phub::transport::verbs {

enum class GpuPath : std::uint8_t {
  kDmaBuf,      // the GPU's driver exports the memory and the kernel hands it to the adapter's
  kPeerMemory,  // the adapter's driver asks a module about the address (nvidia-peermem)
};

struct GpuSource {
  Registration registration;
  GpuPath path = GpuPath::kDmaBuf;
  std::string refused;  // what the ways before this one said; empty: it is the first
};

// Registers all of `memory` as a source of writes (RegionAccess::kSource): dma-buf first, then peer
// memory. Work requests use the device's addresses. Error: kFailedPrecondition with what each way
// was refused by, and the cure; then gradients go through the host's memory.
Result<GpuSource> register_gpu(ibv_pd& domain, const ExportedMemory& memory);

const char* name_of(GpuPath path);  // "dma-buf", "peer memory"

}  // namespace phub::transport::verbs
