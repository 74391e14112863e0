#include "common/transport/verbs/device/gid.h"
#include "server/rpc/messages/messages.h"

namespace phub::server {

namespace verbs = transport::verbs;

namespace {

// The port's entry, made when it is not there.
control::PortLoad& load_of(const CorePort& port, std::uint32_t server,
                           control::PlanReply& message) {
  for (control::PortLoad& load : *message.mutable_port_loads()) {
    if (load.device() == port.device && load.port() == port.port) return load;
  }
  control::PortLoad& load = *message.add_port_loads();
  load.set_server(server);
  load.set_device(port.device);
  load.set_port(port.port);
  return load;
}

}  // namespace

void fill(const PortStatus& status, control::PortInfo& message) {
  const CorePort& identity = status.identity;
  message.set_device(identity.device);
  message.set_port(identity.port);
  message.set_link_layer(name_of(identity.link_layer));
  message.set_state(status.state);
  message.set_mtu_bytes(status.mtu_bytes);
  message.set_numa_node(status.numa_node);
  message.mutable_cores()->Add(status.cores.begin(), status.cores.end());
  message.set_gid_index(identity.gid.index);
  message.set_gid(verbs::address_text(identity.gid));
  message.set_gid_type(name_of(identity.gid.type));
  const verbs::Traffic traffic = verbs::traffic_of(status.counters);
  if (traffic.bytes_received) message.set_bytes_received(*traffic.bytes_received);
  if (traffic.bytes_sent) message.set_bytes_sent(*traffic.bytes_sent);
  if (traffic.packets_received) message.set_packets_received(*traffic.packets_received);
  if (traffic.packets_sent) message.set_packets_sent(*traffic.packets_sent);
  for (const verbs::PortCounter& counter : status.counters) {
    control::PortCounter& entry = *message.add_counters();
    entry.set_name(counter.name);
    entry.set_value(counter.value);
    entry.set_kind(name_of(verbs::kind_of(counter.name)));
  }
}

void fill_ports(const PlanView& view, control::PlanReply& message) {
  for (control::CoreLoad& load : *message.mutable_loads()) {
    if (load.server() != view.server_index || load.core() >= view.ports.size()) continue;
    const CorePort& port = view.ports[load.core()];
    load.set_device(port.device);
    load.set_port(port.port);
    control::PortLoad& sum = load_of(port, load.server(), message);
    sum.add_cores(load.core());
    sum.set_chunks(sum.chunks() + load.chunks());
    sum.set_bytes(sum.bytes() + load.bytes());
  }
}

}  // namespace phub::server
