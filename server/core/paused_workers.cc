#include "server/core/paused_workers.h"

namespace phub::server {

void PausedWorkers::pause(Connection& connection) {
  connection.paused = true;
  connection.endpoint->pause(connection.peer, true);
  connection.job->ready.remove(connection);
  paused_.push_back(&connection);
}

bool PausedWorkers::resume() {
  for (const Connection* connection : paused_) {
    JobOnCore& job = *connection->job;
    const bool has_work = job.is_awake() || job.shard.updates.has_due();
    if (!has_work && job.is_slowest_waiting()) job.allow_staging(kMoreBuffers);
  }
  return std::erase_if(paused_, [](Connection* connection) {
           if (!connection->lost && is_to_wait(*connection)) return false;
           connection->paused = false;
           if (!connection->lost) connection->endpoint->pause(connection->peer, false);
           return true;
         }) > 0;
}

}  // namespace phub::server
