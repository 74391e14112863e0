// The peer's part of a measurement: leads the listener through it.
//
// One thread.
#pragma once

#include <memory>
#include <string>

#include "common/transport/link/link_end.h"
#include "proto/doctor.pb.h"
#include "server/phubctl/doctor/peer/channel.h"
#include "server/phubctl/doctor/peer/peer.h"

namespace phub::phubctl::doctor {

class Trial {
 public:
  // `control` is the session's with this token.
  Trial(const PeerOptions& options, Channel& control, const std::string& token);

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
  Status request(const doctor_wire::Request& request);
  Status answered();
  void show(const std::string& what) const;

  const PeerOptions& options_;
  Channel& control_;
  std::string token_;
  const RdmaEnd* rdma_ = nullptr;
  std::unique_ptr<transport::LinkEnd> link_;
  PortCounters before_;
  LinkTrial trial_;
  std::vector<double> halves_;
};

}  // namespace phub::phubctl::doctor
