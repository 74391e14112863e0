// How this server's cores come to those of other racks: the client's half of the handshake.
//
// Control threads; what blocks is the network, and pinning memory. A job's set-up is held for the
// latter only.
#pragma once

#include "common/connect/data_connection.h"
#include "server/plane/plane_jobs.h"

namespace phub::server {

class RackConnections {
 public:
  // Both outlive it.
  RackConnections(const CoreSet& cores, const PlaneJobs& jobs,
                  const transport::CongestionControl& congestion_control)
      : cores_(cores), jobs_(jobs), congestion_control_(congestion_control) {}

  // These three: see DataPlane.
  Status know(std::uint64_t job_id, std::uint32_t rack, std::uint32_t cores);
  Status connect(const RackTarget& target);
  Status reaches(const client::RdmaPort& peer, std::uint32_t core) const;

 private:
  Status connect_tcp(PlaneJob& job, const RackTarget& target);
  Status connect_shm(PlaneJob& job, const RackTarget& target);
  Status connect_verbs(PlaneJob& job, const RackTarget& target);
  Result<transport::VerbsConnection> prepare(PlaneJob& job, const RackTarget& target);
  Status connect_peers(PlaneJob& job, const RackTarget& target, const CoreRoute& route);
  client::DataTarget data_target(const RackTarget& target) const;

  const CoreSet& cores_;
  const PlaneJobs& jobs_;
  const transport::CongestionControl congestion_control_;
};

}  // namespace phub::server
