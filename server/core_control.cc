// The control threads' side of a Core: tasks that attach and detach, and statistics.
#include <algorithm>

#include "server/core.h"

namespace phub::server {

namespace {
void forget(std::vector<std::unique_ptr<Connection>>& connections, const Shard* shard,
            std::vector<Connection*>& dirty, std::vector<Connection*>& held,
            std::atomic<std::uint32_t>& count) {
  for (auto& connection : connections) {
    if (!connection || connection->shard != shard) continue;
    std::erase(dirty, connection.get());
    std::erase(held, connection.get());
    if (!connection->lost) {
      connection->endpoint->remove(connection->peer);
      count.fetch_sub(1, std::memory_order_relaxed);
    }
    connection.reset();
  }
}
}  // namespace

void Core::detach(Shard* shard) {
  call([&] {
    forget(tcp_connections_, shard, dirty_, held_, connections_);
    forget(shm_connections_, shard, dirty_, held_, connections_);
  });
}

Status Core::connect_tcp(Shard* shard, std::uint32_t worker, UniqueFd socket) {
  auto connection = std::make_unique<Connection>(shard, worker, false);
  Status status;
  call([&] {
    auto peer = tcp_->add(std::move(socket));
    if (!peer) {
      status = peer.error();
      return;
    }
    connection->endpoint = tcp_.get();
    connection->peer = *peer;
    shard->connections[worker] = connection.get();
    tcp_connections_[*peer] = std::move(connection);
    connections_.fetch_add(1, std::memory_order_relaxed);
  });
  return status;
}

Status Core::connect_shm(Shard* shard, std::uint32_t worker,
                         transport::ShmConnection shm_connection) {
  auto connection = std::make_unique<Connection>(shard, worker, true);
  Status status;
  call([&] {
    auto peer = shm_->add(std::move(shm_connection));
    if (!peer) {
      status = peer.error();
      return;
    }
    connection->endpoint = shm_.get();
    connection->peer = *peer;
    shard->connections[worker] = connection.get();
    shm_connections_[*peer] = std::move(connection);
    connections_.fetch_add(1, std::memory_order_relaxed);
  });
  return status;
}

CoreCounters Core::counters() const {
  const auto alive = std::chrono::duration_cast<std::chrono::nanoseconds>(
      std::chrono::steady_clock::now() - started_);
  const std::uint64_t total = static_cast<std::uint64_t>(alive.count());
  return {.cpu = options_.cpu ? static_cast<std::int32_t>(*options_.cpu) : -1,
          .chunks_completed = chunks_completed_.value(),
          .bytes_received = bytes_received_.value(),
          .bytes_sent = bytes_sent_.value(),
          .busy_nanoseconds = total - std::min(total, waiter_->slept_nanoseconds()),
          .sleeps = waiter_->sleeps(),
          .connections = connections_.load(std::memory_order_relaxed)};
}

}  // namespace phub::server
