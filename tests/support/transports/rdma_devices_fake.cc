#include "tests/support/transports/fake_verbs.h"
#include "tests/support/transports/rdma_devices.h"

namespace phub::transport {

const std::vector<std::shared_ptr<const verbs::OpenDevice>>& rdma_devices() {
  static const std::vector kDevices = {*verbs::open_device("fake0", 1, 0)};
  return kDevices;
}

int live_rdma_objects() { return fake_verbs::live_objects(); }

}  // namespace phub::transport
