// One job's membership at the servers of its other racks, from the join to the leave: this server's
// cores push their rack's sums there (server/core/attachments.h, connect_rack).
//
// An uplink has a thread of its own, which may block in calls to other servers. Each call has a
// deadline. Beside that thread, each joined rack gets heartbeats from a pulse of its own
// (common/rendezvous/pulse.h), so that no rack waits for another's reply. Any thread may call the
// functions, which return at once.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "common/connect/transport_choice.h"
#include "common/rendezvous/pulse.h"
#include "common/rendezvous/rendezvous.h"
#include "server/directory/directory.h"
#include "server/job/rack_links.h"
#include "server/plane/data_plane.h"
#include "server/racks/uplink_state.h"

namespace phub::server {

struct UplinkOptions {
  ClientSecurity security = {};                        // how this server proves at others who it is
  std::string transport = "auto";                      // to other racks: auto, shm, tcp, verbs
  std::chrono::milliseconds heartbeat_deadline{5000};  // another rack that is silent longer is lost
};

// What it works with; all outlives it.
struct UplinkParts {
  const Directory& directory;
  DataPlane& data_plane;
  RackEvents& events;
};

class Uplink {
 public:
  // Throws std::system_error where no thread can be made.
  Uplink(LinkedRack job, UplinkOptions options, const UplinkParts& parts);
  ~Uplink();  // leaves: within the call that is under way and a second
  Uplink(const Uplink&) = delete;
  Uplink& operator=(const Uplink&) = delete;

  // All workers of this rack are connected: the other racks hear of it.
  void complete() { state_.complete(); }
  void know_end(std::uint64_t last_step) { end_.know(last_step); }
  // Finds the reason why the connection of `rack` closed. `suspicion` says how it closed.
  void diagnose(const std::string& rack, const std::string& suspicion) {
    state_.diagnose(rack, suspicion);
  }
  // Leaves all other racks, and tells them the reason.
  void close(const std::string& reason) { state_.close(reason); }
  bool is_over() const { return state_.is_over(); }  // it has left, or has failed
  // The servers of all other racks, between the last link and the leave; else none.
  std::vector<LinkedServer> linked() const { return state_.linked(); }

 private:
  // Another rack, by its server that has this one's place; it may have other cores.
  struct Other {
    std::uint32_t rack = 0;
    std::string name;
    std::string address = {};
    std::shared_ptr<client::Rendezvous> server = nullptr;
    client::JoinInfo joined = {};
    client::TransportChoice way = {};
    std::unique_ptr<client::Pulse> pulse = nullptr;  // once it is joined
  };

  void run();
  Status link();
  Status join(Other& other);
  Status join_once(Other& other);
  Status connect(Other& other);
  Status choose_way(Other& other) const;
  Status connect_core(const Other& other, std::uint32_t core);
  Status make_ready(Other& other);
  void begin_pulse(Other& other);
  // Does what is asked for meanwhile. Error: the job cannot go on.
  Status look();
  std::chrono::milliseconds call_timeout() const;  // a close waits for it
  static Status named(const Other& other, const Status& status);
  Status reason_of(const Other& other, const Status& failure);
  bool still_runs(const Other& other) const;
  Status find_reason(Other& other, const std::string& suspicion);
  void leave();

  const std::uint64_t job_id_;
  const bool goes_on_;  // the job does, if another rack is lost
  LinkedRack job_;      // its thread only
  const UplinkOptions options_;
  const UplinkParts parts_;
  client::PlannedEnd end_;  // reports to the job table what other racks say of the end
  UplinkState state_;
  std::vector<Other> others_;  // their pulses use the state
  std::thread thread_;         // last: it uses all of the above
};

}  // namespace phub::server
