#include "common/transport/verbs/open_device.h"

#include <cerrno>
#include <cstring>

#include "common/transport/verbs/device/port_words.h"

namespace phub::transport::verbs {
namespace {

Result<Context> open_context(const std::string& name) {
  int count = 0;
  const DeviceList list(ibv_get_device_list(&count));
  if (!list) return errno_status("ibv_get_device_list (are the RDMA modules loaded?)");
  std::string names;
  for (int i = 0; i < count; ++i) {
    ibv_device* device = list.get()[i];
    if (name == ibv_get_device_name(device)) {
      Context context(ibv_open_device(device));
      if (context) return context;
      return errno_status("opening RDMA device " + name + " (may we use /dev/infiniband?)",
                          Code::kPermissionDenied);
    }
    names += std::string(names.empty() ? "" : ", ") + ibv_get_device_name(device);
  }
  return Status(Code::kNotFound,
                "there is no RDMA device " + name +
                    (names.empty() ? "; there is none at all" : "; there is: " + names));
}

}  // namespace

Result<std::shared_ptr<const OpenDevice>> open_device(const std::string& name, std::uint8_t port,
                                                      std::uint8_t gid_index) {
  auto device = std::make_shared<OpenDevice>();
  device->name = name;
  PHUB_ASSIGN_OR_RETURN(device->context, open_context(name));
  ibv_port_attr attributes = {};
  const std::string where = name + " port " + std::to_string(port);
  if (ibv_query_port(device->context.get(), port, &attributes) != 0) {
    return errno_status("ibv_query_port of " + where, Code::kNotFound);
  }
  if (attributes.state != IBV_PORT_ACTIVE) {
    return Status(Code::kFailedPrecondition,
                  where + " is down (see `phubctl doctor`; is the cable in, is the link up?)");
  }
  ibv_gid gid = {};
  if (ibv_query_gid(device->context.get(), port, gid_index, &gid) != 0) {
    return errno_status("GID " + std::to_string(gid_index) + " of " + where, Code::kNotFound);
  }
  device->address = {.port = port,
                     .global = attributes.link_layer == IBV_LINK_LAYER_ETHERNET,
                     .mtu = static_cast<std::uint8_t>(attributes.active_mtu),
                     .gid_index = gid_index,
                     .lid = attributes.lid};
  std::memcpy(device->address.gid.data(), gid.raw, sizeof(gid.raw));
  return std::shared_ptr<const OpenDevice>(std::move(device));
}

PortNow ask_port(const OpenDevice& device) {
  ibv_port_attr attributes = {};
  if (const int error = ibv_query_port(device.context.get(), device.address.port, &attributes);
      error != 0) {
    errno = error < 0 ? -error : error;
    return {.state = errno_status("unknown: ibv_query_port").message()};
  }
  return {.state = word_of(attributes.state), .mtu_bytes = bytes_of(attributes.active_mtu)};
}

Result<Domain> make_domain(const OpenDevice& device) {
  Domain domain(ibv_alloc_pd(device.context.get()));
  if (!domain) return errno_status("ibv_alloc_pd on " + device.name, Code::kResourceExhausted);
  return domain;
}

}  // namespace phub::transport::verbs
