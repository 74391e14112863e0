// The RDMA devices that an executable's tests run on: the fake's, or this machine's.
#pragma once

#include <memory>
#include <vector>

#include "common/transport/verbs/open_device.h"

namespace phub::transport {

// At least one; each executable links a definition, tests/support/transports/rdma_devices_*.cc.
const std::vector<std::shared_ptr<const verbs::OpenDevice>>& rdma_devices();

// What of them the process has open now; the same before and after is no leak.
int live_rdma_objects();

}  // namespace phub::transport
