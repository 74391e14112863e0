// The listener's part of one meeting: does what the peer asks for, and measures with it.
//
// One thread. Everything that the peer says is checked; every wait has its limit, and the whole
// session has one.
#pragma once

#include <memory>
#include <string>

#include "common/transport/link/link_end.h"
#include "server/phubctl/doctor/peer/end.h"
#include "server/phubctl/doctor/peer/lobby.h"

namespace phub::phubctl::doctor {

struct SessionOptions {
  Paths paths;
  Choices choices;
  Limits limits;
};

class Session {
 public:
  // `lobby` brings the connections that are measured.
  Session(const SessionOptions& options, Lobby& lobby, Visitor visitor);

  // Until the peer has all it wants and closes. Errors: why it ended before.
  Status run();

 private:
  Status welcome();
  Status answer(const Status& status);
  Status on_open(const doctor_wire::Open& open);
  Status on_block(const doctor_wire::Block& block);
  Status on_close();
  Status open_device(bool verbs);
  // The connection that the peer brings for the measurement. Others are told to wait.
  Result<UniqueFd> next_connection();
  Status connect();
  Status play(const doctor_wire::Block& block);

  SessionOptions options_;
  Lobby& lobby_;
  doctor_wire::Hello hello_;
  Channel channel_;
  Clock::time_point end_;
  std::string token_;
  RdmaEnd rdma_;
  transport::LinkOptions link_options_;
  std::unique_ptr<transport::LinkEnd> link_;
  PortCounters before_;  // of link_options_.device, if it has one
};

// Tells a visitor why not, if it listens.
void refuse(Visitor visitor, const std::string& why, const Limits& limits);

}  // namespace phub::phubctl::doctor
