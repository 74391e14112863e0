// What an uplink's thread and its callers tell each other, under one mutex.
//
// Callers ask for a diagnosis or for the end, or say that the workers are connected. A rack's pulse
// reports why it ended. The thread takes what is asked for, and says what it has reached. Nothing
// blocks but the waits of the uplink's thread.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "server/racks/snapshots_there.h"

namespace phub::server {

class UplinkState {
 public:
  // ---- callers ----
  // All workers of this rack are connected.
  void complete();
  // The connection of `rack` closed. `suspicion` says how. Ignored while an earlier one waits.
  void diagnose(const std::string& rack, const std::string& suspicion);
  // The first reason stays.
  void close(const std::string& reason);
  // A pulse has ended, by a thread of gRPC's. The first failure stays.
  void fail(const Status& why);

  bool is_closed() const;
  Status failure() const;
  bool is_over() const;
  std::vector<LinkedServer> linked() const;

  // ---- the uplink's thread ----
  struct Asked {
    bool tells_complete = false;  // the other racks are to hear of it now
    std::string suspected;        // the rack to diagnose; empty: none
    std::string suspicion;
  };
  // Takes what is asked for. Returns nothing to do if the uplink is closed. Error: a pulse's
  // failure.
  Result<Asked> take();
  // The other racks have heard, or are hearing, that the workers are connected.
  bool told_complete() const;
  // Until something is asked for, or has failed.
  void wait();
  void wait_for(std::chrono::milliseconds longest);
  // All other racks are linked by now. Does nothing if the uplink is closed.
  void set_linked(std::vector<LinkedServer> servers);
  // Forgets the linked servers. Returns the reason of the close.
  std::string begin_leave();
  // The uplink has left, or has failed.
  void end();

 private:
  bool has_to_do() const;  // REQUIRES: the mutex is held

  mutable std::mutex mutex_;  // of all below
  std::condition_variable changed_;
  bool closed_ = false;
  std::string reason_;  // of the close
  bool complete_ = false;
  bool told_complete_ = false;
  std::string suspected_;  // a rack whose connection closed
  std::string suspicion_;
  Status failure_;  // that a pulse found first
  bool over_ = false;
  std::vector<LinkedServer> linked_;
};

}  // namespace phub::server
