// The memory of one end on one device: a domain with a source and a window. What a client or a
// test connects with; a server has a window for each worker (server/plane/windows/verbs_memory.h).
#pragma once

#include <memory>
#include <span>

#include "common/memory/exported_memory.h"
#include "common/transport/verbs/memory.h"
#include "common/transport/verbs/open_device.h"
#include "common/transport/verbs/verbs_connection.h"

namespace phub::transport::verbs {

struct Registered {
  std::shared_ptr<const OpenDevice> device;
  Domain domain;
  Registration source;
  Registration window;
  std::span<std::byte> window_bytes;
  // A second source, a GPU's memory, if there is one; the memory goes after its registration.
  ExportedMemoryPointer gpu;
  Registration gpu_source;
};

// `source`: what our writes come from; `window`: where the peers' go. Both outlive the result.
// Errors: register_memory's.
Result<std::shared_ptr<Registered>> register_both(std::shared_ptr<const OpenDevice> device,
                                                  const MemoryRegion& source,
                                                  const MemoryRegion& window);

// For Connector::prepare.
VerbsRegions regions_of(const std::shared_ptr<Registered>& registered);

}  // namespace phub::transport::verbs
