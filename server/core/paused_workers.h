// Workers of a core that are held back: what they send is left in their streams, for staging beyond
// its budget means that some are far ahead of others. Those wait until the slowest has caught up.
//
// Nobody waits in a circle: the slowest is never held, and when it waits itself for what somebody
// else has not pushed, and nothing else is to be done for the job, the job is allowed a few buffers
// more than are in use, again and again until it goes on. So staging grows to what the slowest
// waits for, at most to the pool, which has room for whatever an honest job can push. The allowance
// is taken back when staging is within its budget. Belongs to the core's thread; allocates when it
// is made.
#pragma once

#include <vector>

#include "server/connections/connection.h"

namespace phub::server {

class PausedWorkers {
 public:
  explicit PausedWorkers(std::size_t max_connections) { paused_.reserve(max_connections); }

  bool empty() const { return paused_.empty(); }
  // Something of it has arrived.
  void pause_if_ahead(Connection& connection) {
    if (connection.in_place || connection.paused || connection.role != PeerRole::kWorker) return;
    if (!connection.job->staging_exceeds(0)) {
      connection.job->staging_allowance = 0;
    } else if (is_to_wait(connection)) {
      pause(connection);
    }
  }
  // Lets those go on that need not wait any longer; true if there were any.
  bool resume();
  void forget(Connection& connection) { std::erase(paused_, &connection); }

 private:
  static constexpr std::size_t kMoreBuffers = 8;  // at a time, for a job that stands still

  static bool is_to_wait(const Connection& connection) {
    const JobOnCore& job = *connection.job;
    return job.staging_exceeds(job.staging_allowance) && job.is_ahead(connection);
  }
  void pause(Connection& connection);

  std::vector<Connection*> paused_;
};

}  // namespace phub::server
