// The RDMA devices of this machine, their ports and their GID tables, as plain values: what a port
// and a GID are chosen from and what `phubctl doctor` shows.
//
// Values. list_devices may be called by any thread, at set-up: it opens every device for a moment.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "common/base/status.h"

namespace phub::transport::verbs {

enum class LinkLayer : std::uint8_t { kInfiniBand, kEthernet };

// What a packet with this GID is on the wire; two ends with different ones never meet.
enum class GidType : std::uint8_t { kInfiniBand, kRoceV1, kRoceV2 };

struct Gid {
  std::array<std::uint8_t, 16> bytes = {};  // an IPv6 address, or an IPv4 one as ::ffff:a.b.c.d
  std::uint32_t index = 0;                  // in the port's table
  GidType type = GidType::kInfiniBand;
  std::string netdev;  // the network interface that it is an address of; empty: none
};

struct Port {
  std::uint8_t number = 1;
  bool active = false;
  std::string state;  // "active", "down", "initialising", "armed", "deferring", "no change"
  LinkLayer link_layer = LinkLayer::kEthernet;
  std::uint16_t lid = 0;        // InfiniBand's local address; 0 on Ethernet
  std::uint32_t mtu_bytes = 0;  // that is in use: 256, 512, 1024, 2048 or 4096
  std::uint32_t mtu_bytes_max = 0;
  std::string speed;      // the kernel's words: "100 Gb/sec (4X EDR)"
  std::vector<Gid> gids;  // valid entries only, in the order of their indexes
  std::string netdev;     // of the first GID that has one
};

struct DeviceLimits {
  std::uint32_t max_qp = 0;
  std::uint32_t max_qp_wr = 0;  // work requests in each queue
  std::uint32_t max_sge = 0;
  std::uint32_t max_cqe = 0;  // completions in each queue
  std::uint32_t max_mr = 0;
  std::uint64_t max_mr_size = 0;
  std::uint32_t max_srq = 0;
  std::uint32_t max_srq_wr = 0;
};

struct DeviceInfo {
  std::string name;      // "mlx5_0"
  int numa_node = -1;    // -1: unknown, or the same way from all
  std::string unusable;  // why PHub cannot use it, and the cure; empty: it can
  DeviceLimits limits;
  std::vector<Port> ports;
};

// Every device that libibverbs knows, in its order; none is an empty list, not an error. A device
// that cannot be opened or asked is in the list with its `unusable`. Error: kUnavailable when the
// list itself cannot be had. `sysfs_root` is where the NUMA nodes and the speeds are read.
Result<std::vector<DeviceInfo>> list_devices(const std::string& sysfs_root = "/sys");

const char* name_of(LinkLayer layer);  // "InfiniBand", "Ethernet"
const char* name_of(GidType type);     // "InfiniBand", "RoCE v1", "RoCE v2"

}  // namespace phub::transport::verbs
