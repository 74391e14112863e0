#include "tests/support/transports/fake_verbs_devices.h"

#include <infiniband/verbs.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string_view>

#undef ibv_query_port

namespace phub::tests {

using transport::verbs::DeviceInfo;
using transport::verbs::Gid;
using transport::verbs::GidType;
using transport::verbs::Port;

FakeVerbs& fake_verbs() {
  static FakeVerbs fake;
  return fake;
}

namespace {

const DeviceInfo& replies_for(const ibv_device& device) {
  const auto& devices = fake_verbs().devices;
  return *std::find_if(devices.begin(), devices.end(), [&](const DeviceInfo& info) {
    return info.name == std::string_view(device.name);
  });
}

bool fails(const char* call) { return fake_verbs().failing_call == call; }

ibv_gid_entry entry_of(const Gid& gid, const Port& port) {
  ibv_gid_entry entry = {};
  std::copy(gid.bytes.begin(), gid.bytes.end(), entry.gid.raw);
  entry.gid_index = gid.index;
  entry.port_num = port.number;
  entry.gid_type = gid.type == GidType::kInfiniBand ? IBV_GID_TYPE_IB
                   : gid.type == GidType::kRoceV1   ? IBV_GID_TYPE_ROCE_V1
                                                    : IBV_GID_TYPE_ROCE_V2;
  entry.ndev_ifindex = gid.netdev.empty() ? 0 : 1;  // 1 is lo everywhere
  return entry;
}

}  // namespace
}  // namespace phub::tests

using phub::tests::fails;
using phub::tests::fake_verbs;
using phub::tests::replies_for;
using phub::transport::verbs::LinkLayer;

extern "C" {

ibv_device** ibv_get_device_list(int* count) {
  const auto& fake = fake_verbs();
  *count = 0;
  errno = fake.list_error;
  if (errno != 0) return nullptr;
  auto** list = new ibv_device*[fake.devices.size() + 1]();
  for (const auto& info : fake.devices) {
    auto* device = new ibv_device();
    std::strncpy(device->name, info.name.c_str(), sizeof(device->name) - 1);
    device->transport_type = fake.is_iwarp ? IBV_TRANSPORT_IWARP : IBV_TRANSPORT_IB;
    list[(*count)++] = device;
  }
  ++fake_verbs().open_lists;
  return list;
}

void ibv_free_device_list(ibv_device** list) {
  for (ibv_device** device = list; *device != nullptr; ++device) delete *device;
  delete[] list;
  --fake_verbs().open_lists;
}

const char* ibv_get_device_name(ibv_device* device) { return device->name; }

ibv_context* ibv_open_device(ibv_device* device) {
  errno = EACCES;
  if (fake_verbs().does_not_open == device->name) return nullptr;
  auto* context = new ibv_context();  // without abi_compat: the plain calls below are taken
  context->device = device;
  ++fake_verbs().open_devices;
  return context;
}

int ibv_close_device(ibv_context* context) {
  delete context;
  --fake_verbs().open_devices;
  return 0;
}

int ibv_query_device(ibv_context* context, ibv_device_attr* attributes) {
  if (fails("ibv_query_device")) return EIO;
  const auto& info = replies_for(*context->device);
  attributes->max_qp = static_cast<int>(info.limits.max_qp);
  attributes->max_qp_wr = static_cast<int>(info.limits.max_qp_wr);
  attributes->max_sge = static_cast<int>(info.limits.max_sge);
  attributes->max_cqe = static_cast<int>(info.limits.max_cqe);
  attributes->max_mr = static_cast<int>(info.limits.max_mr);
  attributes->max_mr_size = info.limits.max_mr_size;
  attributes->max_srq = static_cast<int>(info.limits.max_srq);
  attributes->max_srq_wr = -1;  // as some drivers say that there is none
  attributes->phys_port_cnt = static_cast<std::uint8_t>(info.ports.size());
  return 0;
}

int ibv_query_port(ibv_context* context, std::uint8_t number, _compat_ibv_port_attr* old) {
  if (fails("ibv_query_port")) return EIO;
  const auto& port = replies_for(*context->device).ports[number - 1U];
  auto* attributes = reinterpret_cast<ibv_port_attr*>(old);
  attributes->state = port.active ? IBV_PORT_ACTIVE : IBV_PORT_INIT;
  attributes->active_mtu = IBV_MTU_1024;
  attributes->max_mtu = IBV_MTU_4096;
  attributes->lid = port.lid;
  attributes->gid_tbl_len = static_cast<int>(port.gids.size()) + 8;
  attributes->link_layer = port.link_layer == LinkLayer::kEthernet ? IBV_LINK_LAYER_ETHERNET
                                                                   : IBV_LINK_LAYER_UNSPECIFIED;
  return 0;
}

// The library's own name for what ibv_query_gid_table calls.
ssize_t _ibv_query_gid_table(ibv_context* context, ibv_gid_entry* entries, std::size_t entries_max,
                             std::uint32_t /*flags*/, std::size_t /*entry_bytes*/) {
  if (fails("ibv_query_gid_table")) return -EIO;
  std::size_t count = 0;
  for (const auto& port : replies_for(*context->device).ports) {
    for (auto gid = port.gids.rbegin(); gid != port.gids.rend(); ++gid) {
      if (count == entries_max) return -EINVAL;
      entries[count++] = phub::tests::entry_of(*gid, port);
    }
  }
  return static_cast<ssize_t>(count);
}

}  // extern "C"
