// The listener's part of one meeting: measures with the peer as it asks for.
//
// One thread at a time. Everything that the peer says is checked; every wait has its limit, and the
// whole visit has one.
#pragma once

#include <memory>
#include <string>

#include "common/transport/link/link_end.h"
#include "server/phubctl/doctor/peer/end.h"
#include "server/phubctl/doctor/peer/listen.h"

namespace phub::phubctl::doctor {

class Visit {
 public:
  // `who`: the peer, for people. The options outlive it.
  Visit(const ListenOptions& options, std::string who);

  // The steps of a measurement, in this order; `play` any number of times.
  Status open(bool verbs);
  Status connect(UniqueFd socket);
  Status play(const doctor_wire::Block& block);
  doctor_wire::Found close();

  const std::string& who() const { return who_; }
  const RdmaEnd& rdma() const { return rdma_; }
  // Why it has to end; asked while something is waited for.
  Status interrupted() const;

 private:
  const ListenOptions& options_;
  const std::string who_;
  const Clock::time_point end_;
  const RdmaEnd rdma_;
  transport::LinkOptions link_options_;
  std::unique_ptr<transport::LinkEnd> link_;
  PortCounters before_;  // of link_options_.device, if it has one
};

}  // namespace phub::phubctl::doctor
