#include "server/control_service_ports.h"

#include "common/transport/verbs/gid.h"

namespace phub::server {

namespace verbs = transport::verbs;

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
  for (const verbs::Counter& counter : status.counters) {
    control::PortCounter& entry = *message.add_counters();
    entry.set_name(counter.name);
    entry.set_value(counter.value);
    entry.set_kind(name_of(verbs::kind_of(counter.name)));
  }
}

}  // namespace phub::server
