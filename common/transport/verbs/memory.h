// Registered memory: what a device may read from, or a peer may write to. Set-up only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "common/base/status.h"
#include "common/transport/verbs/objects.h"

namespace phub::transport::verbs {

enum class Access {
  kSource,  // we write to peers from it; nobody else can reach it
  kWindow,  // a peer that is told the key may write to it, and can never read it
};

// Pins the range until the registration is destroyed. Errors name memlock, the device's limits and
// the cure.
Result<Registration> register_memory(ibv_pd& domain, std::span<std::byte> memory, Access access);

// The same for device memory (a GPU's) that the driver exports as a dma-buf; `offset` is its place
// in the buffer. Error: kFailedPrecondition if the device cannot.
Result<Registration> register_dmabuf(ibv_pd& domain, int dmabuf_fd, std::uint64_t offset,
                                     std::size_t bytes, Access access);

}  // namespace phub::transport::verbs
