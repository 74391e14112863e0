// Registered memory: what a device may read from, or a peer may write to. Set-up only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "common/base/status.h"
#include "common/transport/verbs/device/objects.h"

namespace phub::transport::verbs {

enum class RegionAccess {
  kSource,  // we write to peers from it; nobody else can reach it
  kWindow,  // a peer that is told the key may write to it, and can never read it
};

// What a device is to read or write: the host's memory, or a GPU's that its driver exports as a
// dma-buf. Either way work requests and peers use the addresses of `bytes`.
struct MemoryRegion {
  MemoryRegion(std::span<std::byte> host) : bytes(host) {}  // NOLINT(*-explicit-*): it is one
  MemoryRegion(std::byte* data, std::size_t size) : bytes(data, size) {}
  MemoryRegion(std::span<std::byte> gpu, int fd, std::uint64_t offset)
      : bytes(gpu), dmabuf_fd(fd), dmabuf_offset(offset) {}

  std::span<std::byte> bytes;
  int dmabuf_fd = -1;               // stays the caller's; -1: the host's memory
  std::uint64_t dmabuf_offset = 0;  // of `bytes` in the dma-buf
};

// Pins the region until the registration is destroyed. Errors name memlock, the device's limits and
// the cure; kFailedPrecondition for a dma-buf that the device cannot register (gpu_source.h has
// what is tried then).
Result<Registration> register_memory(ibv_pd& domain, const MemoryRegion& region,
                                     RegionAccess access);

}  // namespace phub::transport::verbs
