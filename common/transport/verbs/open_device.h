// One port of an RDMA device, opened: what queue pairs are made on. Shared by everything made from
// it; immutable, any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "common/base/status.h"
#include "common/transport/verbs/device/objects.h"
#include "common/transport/verbs/queue_pair.h"

namespace phub::transport::verbs {

struct OpenDevice {
  std::string name;
  Context context;
  PortAddress address;
};

// Error: kNotFound without such a device, kFailedPrecondition if the port is down.
Result<std::shared_ptr<const OpenDevice>> open_device(const std::string& name, std::uint8_t port,
                                                      std::uint8_t gid_index);

// How the port is now, which may differ from when it was opened.
struct PortNow {
  std::string state;  // as Port's; when the device does not answer, the error
  std::uint32_t mtu_bytes = 0;
};
PortNow ask_port(const OpenDevice& device);

Result<Domain> make_domain(const OpenDevice& device);

}  // namespace phub::transport::verbs
