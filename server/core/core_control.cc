// The control threads' side of a Core: tasks that attach and detach, and statistics.
#include <algorithm>

#include "server/core/core.h"

namespace phub::server {

void Core::detach(JobOnCore* job) {
  call([&] {
    turns_.shares.remove(*job);
    updates_.forget(*job);
    for (auto& connection : job->connections) {
      if (connection) forget(*connection);
      connection.reset();
    }
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

void Core::forget(Connection& connection) {
  replies_.forget(connection);
  paused_.forget(connection);
  connection.job->ready.remove(connection);
  if (!connection.lost) {
    connection.endpoint->remove(connection.peer);
    connections_.fetch_sub(1, std::memory_order_relaxed);
  }
  for (auto* table : {&tcp_connections_, &shm_connections_, &verbs_connections_}) {
    std::replace(table->begin(), table->end(), &connection, static_cast<Connection*>(nullptr));
  }
}

// `add` makes the endpoint's peer; it runs on the core's thread.
template <typename Add>
Status Core::attach(std::unique_ptr<Connection> connection, transport::Endpoint& endpoint,
                    std::vector<Connection*>& connections, Add add) {
  Status status;
  call([&] {
    JobOnCore& job = *connection->job;
    if (job.connections[connection->worker]) {
      status = {Code::kAlreadyExists, "the worker has, or had, a connection to this core"};
      return;
    }
    auto peer = add();
    if (!peer) {
      status = peer.error();
      return;
    }
    connection->endpoint = &endpoint;
    connection->peer = *peer;
    PriceList::Kind kind = job.kind;
    kind.transport = &endpoint;
    connection->prices = &turns_.prices.of(kind);
    if (!job.is_added()) turns_.shares.add(job, job.tenant_id, job.weight);
    connections[*peer] = connection.get();
    job.connections[connection->worker] = std::move(connection);
    connections_.fetch_add(1, std::memory_order_relaxed);
  });
  return status;
}

Status Core::connect_tcp(JobOnCore* job, std::uint32_t worker, transport::TcpStream stream) {
  return attach(std::make_unique<Connection>(job, worker, false), tcp_->endpoint(),
                tcp_connections_, [&] { return tcp_->endpoint().add(std::move(stream)); });
}

Status Core::connect_shm(JobOnCore* job, std::uint32_t worker,
                         transport::ShmConnection shm_connection, std::byte* line,
                         std::shared_ptr<const WindowLayout> landing) {
  auto connection = std::make_unique<Connection>(job, worker, true);
  connection->window = line;
  connection->landing = std::move(landing);
  return attach(std::move(connection), *shm_, shm_connections_,
                [&] { return shm_->add(std::move(shm_connection)); });
}

Status Core::connect_verbs(JobOnCore* job, std::uint32_t worker,
                           transport::VerbsConnection verbs_connection, std::byte* window,
                           std::shared_ptr<const WindowLayout> landing) {
  auto connection = std::make_unique<Connection>(job, worker, true);
  connection->window = window;
  connection->landing = std::move(landing);
  return attach(std::move(connection), *verbs_, verbs_connections_,
                [&] { return verbs_->add(std::move(verbs_connection)); });
}

std::vector<RoundRecord> Core::rounds(const JobOnCore& job, std::size_t count,
                                      std::uint64_t start) {
  std::vector<RoundRecord> records;
  call([&] { records = job.times.log().last(count); });
  const auto convert = [&](std::uint64_t& stamp) {
    stamp = stamp > start ? turns_.rate().nanoseconds_of(stamp - start) : 0;
  };
  for (RoundRecord& record : records) {
    for (std::uint64_t* stamp : {&record.first_push, &record.complete, &record.replied}) {
      convert(*stamp);
    }
    record.work = turns_.rate().nanoseconds_of(record.work);
    for (WorkerSpan& worker : record.workers) {
      convert(worker.first_push);
      convert(worker.last_push);
    }
  }
  return records;
}

CoreJobCounters Core::job_counters(const JobOnCore& job) const {
  CoreJobCounters counters{.job_id = job.job_id,
                           .chunks_completed = job.shard.chunks_completed.value(),
                           .busy_nanoseconds = turns_.rate().nanoseconds_of(job.times.busy.value()),
                           .queued_pushes = job.arrivals.length()};
  for (const WorkerCounters& worker : job.worker_counters) {
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
          .chunks_completed = replies_.chunks_completed.value(),
          .bytes_received = bytes_received_.value(),
          .bytes_sent = replies_.bytes_sent.value(),
          .busy_nanoseconds = total - std::min(total, waiter_->slept_nanoseconds()),
          .sleeps = waiter_->sleeps(),
          .connections = connections_.load(std::memory_order_relaxed)};
}

}  // namespace phub::server
