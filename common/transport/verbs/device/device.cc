#include "common/transport/verbs/device/device.h"

#include <infiniband/verbs.h>
#include <net/if.h>

#include <algorithm>
#include <cerrno>
#include <charconv>

#include "common/base/first_line.h"
#include "common/transport/verbs/device/objects.h"
#include "common/transport/verbs/device/port_words.h"

namespace phub::transport::verbs {
namespace {

// Most calls return the error, whether they set errno or not.
std::string failure(const char* call, int error) {
  errno = error < 0 ? -error : error;
  return errno_status(call).message();
}

std::uint32_t count_of(int limit) { return static_cast<std::uint32_t>(std::max(limit, 0)); }

int numa_node_of(const std::string& folder) {
  const std::string text = first_line(folder + "/device/numa_node");
  int node = -1;
  std::from_chars(text.data(), text.data() + text.size(), node);
  return node;
}

std::string interface_of(std::uint32_t index) {
  std::array<char, IF_NAMESIZE> name = {};
  return index != 0 && ::if_indextoname(index, name.data()) != nullptr ? name.data() : "";
}

DeviceLimits limits_of(const ibv_device_attr& attributes) {
  return {.max_qp = count_of(attributes.max_qp),
          .max_qp_wr = count_of(attributes.max_qp_wr),
          .max_sge = count_of(attributes.max_sge),
          .max_cqe = count_of(attributes.max_cqe),
          .max_mr = count_of(attributes.max_mr),
          .max_mr_size = attributes.max_mr_size,
          .max_srq = count_of(attributes.max_srq),
          .max_srq_wr = count_of(attributes.max_srq_wr)};
}

Port port_of(std::uint8_t number, const ibv_port_attr& attributes, const std::string& folder) {
  return {.number = number,
          .active = attributes.state == IBV_PORT_ACTIVE,
          .state = word_of(attributes.state),
          .link_layer = attributes.link_layer == IBV_LINK_LAYER_ETHERNET ? LinkLayer::kEthernet
                                                                         : LinkLayer::kInfiniBand,
          .lid = attributes.lid,
          .mtu_bytes = bytes_of(attributes.active_mtu),
          .mtu_bytes_max = bytes_of(attributes.max_mtu),
          .speed = first_line(folder + "/ports/" + std::to_string(number) + "/rate"),
          .gids = {},
          .netdev = {}};
}

Gid gid_of(const ibv_gid_entry& entry) {
  Gid gid{.index = entry.gid_index, .netdev = interface_of(entry.ndev_ifindex)};
  std::copy_n(entry.gid.raw, gid.bytes.size(), gid.bytes.begin());
  if (entry.gid_type == IBV_GID_TYPE_ROCE_V1) gid.type = GidType::kRoceV1;
  if (entry.gid_type == IBV_GID_TYPE_ROCE_V2) gid.type = GidType::kRoceV2;
  return gid;
}

// Fills the GID tables of all ports, which have `entries_max` places together. Empty, or the error.
std::string read_gids(ibv_context& context, std::size_t entries_max, std::vector<Port>& ports) {
  if (entries_max == 0) return {};
  std::vector<ibv_gid_entry> entries(entries_max);
  const auto count = ibv_query_gid_table(&context, entries.data(), entries.size(), 0);
  if (count < 0) return failure("ibv_query_gid_table", static_cast<int>(count));
  entries.resize(static_cast<std::size_t>(count));
  std::sort(entries.begin(), entries.end(), [](const ibv_gid_entry& a, const ibv_gid_entry& b) {
    return a.gid_index < b.gid_index;
  });
  for (const ibv_gid_entry& entry : entries) {
    for (Port& port : ports) {
      if (port.number != entry.port_num) continue;
      port.gids.push_back(gid_of(entry));
      if (port.netdev.empty()) port.netdev = port.gids.back().netdev;
    }
  }
  return {};
}

// Empty, or the error.
std::string ask(ibv_context& context, const std::string& folder, DeviceInfo& info) {
  ibv_device_attr device = {};
  if (const int error = ibv_query_device(&context, &device); error != 0) {
    return failure("ibv_query_device", error);
  }
  info.limits = limits_of(device);
  std::size_t gids_max = 0;
  for (unsigned number = 1; number <= device.phys_port_cnt; ++number) {
    ibv_port_attr port = {};
    const auto narrow = static_cast<std::uint8_t>(number);
    if (const int error = ibv_query_port(&context, narrow, &port); error != 0) {
      return failure("ibv_query_port", error);
    }
    info.ports.push_back(port_of(narrow, port, folder));
    gids_max += count_of(port.gid_tbl_len);
  }
  return read_gids(context, gids_max, info.ports);
}

DeviceInfo read_device(ibv_device& device, const std::string& sysfs_root) {
  DeviceInfo info;
  info.name = ibv_get_device_name(&device);
  const std::string folder = sysfs_root + "/class/infiniband/" + info.name;
  info.numa_node = numa_node_of(folder);
  const Context context(ibv_open_device(&device));
  if (!context) {
    info.unusable =
        errno_status("it cannot be opened").message() + "; is /dev/infiniband there for this user?";
    return info;
  }
  info.unusable = ask(*context, folder, info);
  if (device.transport_type == IBV_TRANSPORT_IWARP) {
    info.unusable = "it speaks iWARP; PHub needs InfiniBand or RoCE";
  }
  return info;
}

}  // namespace

Result<std::vector<DeviceInfo>> list_devices(const std::string& sysfs_root) {
  int count = 0;
  const DeviceList list(ibv_get_device_list(&count));
  std::vector<DeviceInfo> devices;
  if (!list) {
    if (errno == ENOSYS) return devices;  // a kernel without RDMA
    return errno_status("listing RDMA devices (is the module ib_uverbs loaded?)",
                        Code::kUnavailable);
  }
  for (int i = 0; i < count; ++i) {
    devices.push_back(read_device(*list.get()[i], sysfs_root));
  }
  return devices;
}

const char* name_of(LinkLayer layer) {
  return layer == LinkLayer::kEthernet ? "Ethernet" : "InfiniBand";
}

const char* name_of(GidType type) {
  if (type == GidType::kInfiniBand) return "InfiniBand";
  return type == GidType::kRoceV1 ? "RoCE v1" : "RoCE v2";
}

}  // namespace phub::transport::verbs
