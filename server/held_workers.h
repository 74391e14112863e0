// Workers of a core that are held back: what they send is left in their streams, for staging beyond
// its budget means that some are far ahead of others. Those wait until the slowest has caught up.
//
// Nobody waits in a circle: the slowest is never held, and when it waits itself for what somebody
// else has not pushed, and nothing else is to be done for the job, the job holds nobody until its
// staging is back within the budget. Staging is then bounded by the pool, which has room for
// whatever an honest job can push. Belongs to the core's thread; allocates when it is made.
#pragma once

#include <vector>

#include "server/connection.h"

namespace phub::server {

class HeldWorkers {
 public:
  explicit HeldWorkers(std::size_t max_connections) { held_.reserve(max_connections); }

  bool empty() const { return held_.empty(); }
  // Something of it has arrived.
  void hold_if_ahead(Connection& connection) {
    if (connection.in_place || connection.paused) return;
    if (!connection.shard->staging_is_full()) {
      connection.shard->holds_nobody = false;
    } else if (is_to_wait(connection)) {
      hold(connection);
    }
  }
  // Lets those go on that need not wait any longer; true if there were any.
  bool release();
  void forget(Connection& connection) { std::erase(held_, &connection); }

 private:
  static bool is_to_wait(const Connection& connection) {
    const Shard& shard = *connection.shard;
    return shard.staging_is_full() && !shard.holds_nobody && shard.is_ahead(connection);
  }
  void hold(Connection& connection);

  std::vector<Connection*> held_;
};

}  // namespace phub::server
