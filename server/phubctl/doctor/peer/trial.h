// The peer's part of a measurement: leads the listener through it.
//
// One thread.
#pragma once

#include <memory>
#include <string>

#include "common/transport/link/link_end.h"
#include "server/phubctl/doctor/peer/client.h"
#include "server/phubctl/doctor/peer/peer.h"

namespace phub::phubctl::doctor {

class Trial {
 public:
  Trial(const MeetOptions& options, DoctorClient& client) : options_(options), client_(client) {}

  // Over this port, or over tcp without one.
  LinkTrial run(const RdmaEnd* rdma);

 private:
  Status open();
  Status connect();
  Status measure();
  Status close();
  // Half a round trip, the median in seconds.
  Result<double> half_round_trip(std::uint32_t bytes);
  Result<double> bytes_per_second(doctor_wire::Block::Kind direction);
  // One block of `count`; how long it took, in seconds.
  Result<double> block(doctor_wire::Block::Kind kind, std::uint32_t count, std::uint32_t bytes);
  Status play(doctor_wire::Block::Kind kind, std::uint32_t count, std::uint32_t bytes);
  void show(const std::string& what) const;

  const MeetOptions& options_;
  DoctorClient& client_;
  const RdmaEnd* rdma_ = nullptr;
  std::unique_ptr<transport::LinkEnd> link_;
  PortCounters before_;
  LinkTrial trial_;
  std::vector<double> halves_;
};

}  // namespace phub::phubctl::doctor
