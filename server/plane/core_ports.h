// Which port of which RDMA device serves which core, at set-up; how the ports are, whenever a
// control thread asks.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/transport/verbs/open_device.h"
#include "server/plane/data_plane.h"

namespace phub::server {

struct OpenPort {
  CorePort identity;
  int numa_node = -1;
  std::shared_ptr<const transport::verbs::OpenDevice> device;
};

// By core the port that serves it, opened, of those that the options allow: one on its CPU's NUMA
// node if there is any (`cpus` by core; nothing: not pinned), and of those the one that serves the
// fewest cores so far. Empty if verbs are not offered, or are only if possible and no port can be
// used. Errors (with kYes): the reasons of every port.
Result<std::vector<OpenPort>> open_ports(const DataPlaneOptions& options,
                                         const std::vector<std::optional<std::uint32_t>>& cpus);

// One entry for each port of `by_core`, in the order of their first cores. A port that does not
// reply has the error as its state; counters that cannot be read are left out.
std::vector<PortStatus> statuses_of(const std::vector<OpenPort>& by_core,
                                    const std::string& sysfs_root);

}  // namespace phub::server
