#include "server/plane/rack_connections.h"

#include <algorithm>
#include <string>
#include <utility>

#include "common/transport/verbs/device/gid.h"

namespace phub::server {
namespace {

constexpr std::uint32_t kCoresMax = 4096;   // of a server, as in ServerConfig
constexpr std::ptrdiff_t kSubnetBytes = 8;  // of a GID of InfiniBand

Status gone() { return {Code::kNotFound, "the job is not here any more"}; }

// Runs `todo`, unless the job is about to go, which then waits for it.
template <typename Do>
auto while_there(PlaneJob& job, Do todo) -> decltype(todo()) {
  const std::lock_guard setup(job.setup);
  if (job.is_detached) return gone();
  return todo();
}

JobOnCore* on_core(const PlaneJob& job, const RackTarget& target) {
  return job.on_cores()[target.core].get();
}

RackAbove above(const RackTarget& target) { return {target.rack, target.joined->epoch}; }

}  // namespace

client::DataTarget RackConnections::data_target(const RackTarget& target) const {
  return {.joined = target.joined,
          .core = target.core,
          .timeout = target.timeout,
          .guards_memory = true,
          .congestion_control = congestion_control_};
}

Status RackConnections::know(std::uint64_t job_id, std::uint32_t rack, std::uint32_t cores) {
  const PlaneJobs::Pointer job = jobs_.find(job_id);
  if (!job) return gone();
  const RackPlace& place = job->layout().rack;
  if (cores == 0 || cores > kCoresMax || rack >= place.racks() || rack == place.own()) {
    return {Code::kInvalidArgument, "no such rack of the job, or its server says " +
                                        std::to_string(cores) + " cores: 1 to " +
                                        std::to_string(kCoresMax) + " are possible"};
  }
  return job->know_rack(rack, cores);
}

Status RackConnections::connect(const RackTarget& target) {
  const PlaneJobs::Pointer job = jobs_.find(target.job_id);
  if (!job) return gone();
  const CoreRoute* const route = job->route_to(target.rack, target.core);
  if (route != nullptr) return connect_peers(*job, target, *route);
  if (target.transport == "shm") return connect_shm(*job, target);
  return target.transport == "verbs" ? connect_verbs(*job, target) : connect_tcp(*job, target);
}

// The core's port is chosen already, and its GID: both ends have one of the same kind, or do not
// meet.
Status RackConnections::reaches(const client::RdmaPort& peer, std::uint32_t core) const {
  const std::vector<OpenPort>& ports = cores_.ports();
  if (core >= ports.size()) return {Code::kNotFound, "this server uses no RDMA"};
  const CorePort& own = ports[core].identity;
  const auto said = [](const auto& port) {
    return port.device + " (" + transport::verbs::to_string(port.gid) + ")";
  };
  const Status apart{Code::kNotFound,
                     "this server's " + said(own) + " does not reach the other's " + said(peer)};
  if (own.link_layer != peer.link_layer || own.gid.type != peer.gid.type) return apart;
  const bool is_ethernet = own.link_layer == transport::verbs::LinkLayer::kEthernet;
  const bool same_family =
      transport::verbs::is_ipv4(own.gid) == transport::verbs::is_ipv4(peer.gid);
  const bool same_subnet = std::equal(own.gid.bytes.begin(), own.gid.bytes.begin() + kSubnetBytes,
                                      peer.gid.bytes.begin());
  return (is_ethernet ? same_family : same_subnet) ? Status() : apart;
}

Status RackConnections::connect_tcp(PlaneJob& job, const RackTarget& target) {
  PHUB_ASSIGN_OR_RETURN(transport::TcpStream stream, client::open_tcp(data_target(target)));
  return while_there(job, [&] {
    return cores_.cores()[target.core]->attachments().connect_rack(
        on_core(job, target), above(target), std::move(stream));
  });
}

Status RackConnections::connect_peers(PlaneJob& job, const RackTarget& target,
                                      const CoreRoute& route) {
  if (target.transport != "tcp") {
    return {Code::kFailedPrecondition,
            "the server there has another number of cores, which needs tcp"};
  }
  for (std::uint32_t peer = 0; peer < route.peers.size(); ++peer) {
    client::DataTarget to = data_target(target);
    to.core = route.peers[peer].core;
    to.stream = route.peers[peer].stream;
    PHUB_ASSIGN_OR_RETURN(transport::TcpStream stream, client::open_tcp(to));
    RackAbove core = above(target);
    core.route = &route;
    core.peer = peer;
    PHUB_RETURN_IF_ERROR(while_there(job, [&] {
      return cores_.cores()[target.core]->attachments().connect_rack(on_core(job, target), core,
                                                                     std::move(stream));
    }));
  }
  return {};
}

// The other server maps the sums, and insists on all of their pages.
Status RackConnections::connect_shm(PlaneJob& job, const RackTarget& target) {
  SharedMemory& sums = *job.memory().rack_sums;
  PHUB_RETURN_IF_ERROR(while_there(job, [&] { return sums.commit(); }));
  const std::uint32_t capacity = transport::channel_capacity(on_core(job, target)->shard.chunks());
  PHUB_ASSIGN_OR_RETURN(transport::ShmConnection connection,
                        client::open_shm(data_target(target), sums, capacity));
  const std::size_t there = connection.peer_memory->size();
  const std::size_t here = job.memory().rack_replies().size();
  if (there != here) {
    return {Code::kInvalidArgument, "it replies from " + std::to_string(there) +
                                        " bytes of memory, this server from " +
                                        std::to_string(here)};
  }
  return while_there(job, [&] {
    job.shm.keep(connection);
    return cores_.cores()[target.core]->attachments().connect_rack(
        on_core(job, target), above(target), std::move(connection));
  });
}

Result<transport::VerbsConnection> RackConnections::prepare(PlaneJob& job,
                                                            const RackTarget& target) {
  PHUB_ASSIGN_OR_RETURN(const auto memory, job.memory_for(target.core));
  PHUB_ASSIGN_OR_RETURN(const transport::VerbsRegions regions, memory->towards(target.rack));
  // Each chunk, a Hyper and a vote, at most, are on their way at a time.
  const std::uint32_t depth = on_core(job, target)->shard.chunks() + 2;
  return cores_.cores()[target.core]->attachments().connector().prepare(regions, depth);
}

Status RackConnections::connect_verbs(PlaneJob& job, const RackTarget& target) {
  if (cores_.ports().empty()) return {Code::kFailedPrecondition, "no RDMA here"};
  Attachments& attachments = cores_.cores()[target.core]->attachments();
  PHUB_ASSIGN_OR_RETURN(transport::VerbsConnection connection,
                        while_there(job, [&]() -> Result<transport::VerbsConnection> {
                          return prepare(job, target);
                        }));
  PHUB_RETURN_IF_ERROR(client::open_verbs(data_target(target), connection));
  PHUB_RETURN_IF_ERROR(attachments.connector().connect(connection));
  return while_there(job, [&] {
    PHUB_ASSIGN_OR_RETURN(const auto memory, job.memory_for(target.core));
    return attachments.connect_rack(on_core(job, target), above(target), std::move(connection),
                                    memory->rack_layout(target.core));
  });
}

}  // namespace phub::server
