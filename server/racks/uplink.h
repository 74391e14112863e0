// One job's membership at the servers of its other racks, from the join to the leave: this server's
// cores push their rack's sums there (server/core/core.h, connect_rack).
//
// Has a thread of its own, which may block in calls to other servers, each with a deadline. Every
// rack that it has joined is beaten at beside that, by a pulse of its own
// (common/rendezvous/pulse.h), so that no rack waits for another's reply. Its functions return at
// once; any thread.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "common/connect/transport_choice.h"
#include "common/rendezvous/pulse.h"
#include "common/rendezvous/rendezvous.h"
#include "server/directory/directory.h"
#include "server/job/rack_links.h"
#include "server/plane/data_plane.h"
#include "server/racks/snapshots_there.h"

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

  void complete();
  void know_end(std::uint64_t last_step) { end_.know(last_step); }
  void diagnose(const std::string& rack, const std::string& suspicion);
  void close(const std::string& reason);
  bool is_over() const;  // it has left, or has failed
  // The servers of all other racks, between the last link and the leave; else none.
  std::vector<LinkedServer> linked() const;

 private:
  // Another rack, by its server that has this one's place.
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
  // By a thread of gRPC's: a rack's pulse has ended.
  void fail(const Status& why);
  Status failure() const;
  // Does what is asked for meanwhile. Error: the job cannot go on.
  Status look();
  std::chrono::milliseconds call_timeout() const;  // a close waits for it
  static Status named(const Other& other, const Status& status);
  Status reason_of(const Other& other, const Status& failure);
  bool still_runs(const Other& other) const;
  static Status over_there(const std::string& rack, const std::string& reason);
  Status find_reason(Other& other, const std::string& suspicion);
  void leave();
  bool is_closed() const;
  bool has_to_do() const;  // REQUIRES: the mutex

  LinkedRack job_;  // its thread only
  const UplinkOptions options_;
  const UplinkParts parts_;
  client::PlannedEnd end_;  // what other racks say of it goes to the table
  std::vector<Other> others_;

  mutable std::mutex mutex_;  // of all below but the thread
  std::condition_variable changed_;
  bool closed_ = false;
  std::string reason_;  // of the close
  bool complete_ = false;
  bool told_ = false;      // that it is complete
  std::string suspected_;  // a rack whose connection closed
  std::string suspicion_;
  Status failure_;  // that a heartbeat found first
  bool over_ = false;
  std::vector<LinkedServer> linked_;
  std::thread thread_;  // last: it uses all of the above
};

}  // namespace phub::server
