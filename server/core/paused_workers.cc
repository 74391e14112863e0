#include "server/core/paused_workers.h"

namespace phub::server {

void PausedWorkers::pause(Connection& connection) {
  connection.paused = true;
  connection.endpoint->pause(connection.peer, true);
  connection.shard->ready.remove(connection);
  paused_.push_back(&connection);
}

bool PausedWorkers::resume() {
  for (const Connection* connection : paused_) {
    Shard& shard = *connection->shard;
    const bool has_work = shard.is_awake() || shard.is_releasing;
    if (!has_work && shard.is_slowest_waiting()) shard.allow_staging(kMoreBuffers);
  }
  return std::erase_if(paused_, [](Connection* connection) {
           if (!connection->lost && is_to_wait(*connection)) return false;
           connection->paused = false;
           if (!connection->lost) connection->endpoint->pause(connection->peer, false);
           return true;
         }) > 0;
}

}  // namespace phub::server
