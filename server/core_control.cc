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
    shares_.remove(*shard);
    std::erase(releasing_, shard);
    forget(tcp_connections_, shard, dirty_, held_, connections_);
    forget(shm_connections_, shard, dirty_, held_, connections_);
    forget(verbs_connections_, shard, dirty_, held_, connections_);
  });
  if (verbs_) destroy_ended();
}

// Waits, off the core's thread, for last writes to leave, and destroys queue pairs and the memory
// behind them there.
void Core::destroy_ended() {
  const auto deadline =
      std::chrono::steady_clock::now() + 2 * transport::verbs::Departures::kLongest;
  std::size_t leaving = 1;
  while (leaving > 0 && std::chrono::steady_clock::now() < deadline) {
    std::vector<transport::VerbsConnection> ended;
    ended.reserve(options_.max_connections);
    call([&] {
      leaving = verbs_->leaving();
      verbs_->take_ended(ended);
    });
    if (leaving > 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

// `add` makes the endpoint's peer; it runs on the core's thread.
template <typename Add>
Status Core::attach(std::unique_ptr<Connection> connection, transport::Endpoint& endpoint,
                    std::vector<std::unique_ptr<Connection>>& connections, Add add) {
  Status status;
  call([&] {
    auto peer = add();
    if (!peer) {
      status = peer.error();
      return;
    }
    connection->endpoint = &endpoint;
    connection->peer = *peer;
    Shard& shard = *connection->shard;
    connection->prices = &prices_.of({.rule = shard.rule(),
                                      .wire_type = shard.wire_type(),
                                      .workers = shard.workers(),
                                      .loss_scaling = shard.loss_scaling(),
                                      .transport = &endpoint});
    if (!shard.is_added()) shares_.add(shard, shard.tenant_id(), shard.weight());
    shard.connections[connection->worker] = connection.get();
    connections[*peer] = std::move(connection);
    connections_.fetch_add(1, std::memory_order_relaxed);
  });
  return status;
}

Status Core::connect_tcp(Shard* shard, std::uint32_t worker, transport::TcpStream stream) {
  return attach(std::make_unique<Connection>(shard, worker, false), *tcp_, tcp_connections_,
                [&] { return tcp_->add(std::move(stream)); });
}

Status Core::connect_shm(Shard* shard, std::uint32_t worker,
                         transport::ShmConnection shm_connection, std::byte* line,
                         std::shared_ptr<const Landing> landing) {
  auto connection = std::make_unique<Connection>(shard, worker, true);
  connection->window = line;
  connection->landing = std::move(landing);
  return attach(std::move(connection), *shm_, shm_connections_,
                [&] { return shm_->add(std::move(shm_connection)); });
}

Status Core::connect_verbs(Shard* shard, std::uint32_t worker,
                           transport::VerbsConnection verbs_connection, std::byte* window,
                           std::shared_ptr<const Landing> landing) {
  auto connection = std::make_unique<Connection>(shard, worker, true);
  connection->window = window;
  connection->landing = std::move(landing);
  return attach(std::move(connection), *verbs_, verbs_connections_,
                [&] { return verbs_->add(std::move(verbs_connection)); });
}

std::vector<RoundRecord> Core::rounds(const Shard& shard, std::size_t count, std::uint64_t start) {
  std::vector<RoundRecord> records;
  call([&] { records = shard.times->log().last(count); });
  const auto convert = [&](std::uint64_t& stamp) {
    stamp = stamp > start ? rate_.nanoseconds_of(stamp - start) : 0;
  };
  for (RoundRecord& record : records) {
    for (std::uint64_t* stamp : {&record.first_push, &record.complete, &record.replied}) {
      convert(*stamp);
    }
    record.work = rate_.nanoseconds_of(record.work);
    for (WorkerSpan& worker : record.workers) {
      convert(worker.first_push);
      convert(worker.last_push);
    }
  }
  return records;
}

CoreJobCounters Core::job_counters(const Shard& shard) const {
  CoreJobCounters counters{.job_id = shard.job_id(),
                           .chunks_completed = shard.chunks_completed.value(),
                           .busy_nanoseconds = rate_.nanoseconds_of(shard.times->busy.value()),
                           .queued_pushes = shard.arrivals->length()};
  for (const WorkerCounters& worker : shard.worker_counters) {
    counters.bytes_received += worker.bytes_received.value();
    counters.bytes_sent += worker.bytes_sent.value();
  }
  return counters;
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
