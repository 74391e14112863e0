// Which port of which RDMA device the data plane uses: the first that can be used, with the reasons
// why others are not.
//
// A pure function of values; any thread.
#pragma once

#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/transport/verbs/device/device.h"

namespace phub::transport::verbs {

struct PortChoice {
  DeviceInfo device;
  Port port;                          // one of device.ports
  std::vector<std::string> rejected;  // "mlx5_1 port 1: down"; all the others
};

// `names` (configuration: verbs_devices) says which devices may be used, the most wanted first, as
// "mlx5_0" or, for one port of it, "mlx5_0:2"; empty: any, in the order of `devices`. A port can be
// used if it is active and has a GID and its device is usable. Error: kNotFound with the reasons.
Result<PortChoice> choose_port(const std::vector<DeviceInfo>& devices,
                               const std::vector<std::string>& names);

// All of them: the first port that can be used of each name or, without names, of each device.
// Errors: as choose_port's; a name that means none that can be used is one.
Result<std::vector<PortChoice>> choose_ports(const std::vector<DeviceInfo>& devices,
                                             const std::vector<std::string>& names);

// How to do without RDMA hardware.
extern const char* const kWithoutDevices;

}  // namespace phub::transport::verbs
