// The control threads' side of a Core: what attaches and detaches, and statistics.
#include <algorithm>
#include <chrono>

#include "server/core/core.h"

namespace phub::server {

namespace {
Status is_connected() {
  return {Code::kAlreadyExists, "the worker has, or had, a connection to this core"};
}
}  // namespace

void Core::detach(JobOnCore* job) {
  call([&] {
    turns_.shares.remove(*job);
    due_.forget(*job);
    const auto end = [&](std::unique_ptr<Connection>& connection) {
      if (!connection) return;
      connection->for_each_stream([&](Connection& stream) {
        replies_.forget(stream);
        paused_.forget(stream);
        job->ready.remove(stream);
        if (!stream.lost) leave(stream);
        for (Lane* lane : lanes_) lane->forget(stream);
      });
      connection.reset();
    };
    for (auto& connection : job->connections) end(connection);
    for (auto& connection : job->above) end(connection);
  });
  for (Lane* lane : lanes_) lane->destroy_ended(*thread_);
}

void Core::lose(JobOnCore* job, std::uint32_t worker, std::string_view reason) {
  call([&] {
    const auto& connection = job->connections[worker];
    if (connection) losses_.drop(*connection, Drop::kCount, reason);
  });
}

// A connection that is not lost.
void Core::leave(Connection& connection) {
  connection.endpoint->remove(connection.peer);
  losses_.connections.fetch_sub(1, std::memory_order_relaxed);
}

// `peer` is what the lane's endpoint makes a peer of. The core's thread.
template <typename OneLane, typename Peer>
Status Core::enter(OneLane& lane, Connection& connection, Peer peer) {
  JobOnCore& job = *connection.job;
  const auto id = lane.endpoint().add(std::move(peer));
  if (!id) return id.error();
  connection.endpoint = &static_cast<const Lane&>(lane).endpoint();
  connection.peer = *id;
  PriceList::Kind kind = job.kind;
  kind.transport = connection.endpoint;
  // What a byte of these takes is no measure for others.
  const bool has_own = job.shard.members.rounds() != nullptr || job.compresses_racks();
  connection.prices = has_own ? &job.own_prices : &turns_.prices.of(kind);
  if (!job.is_added()) turns_.shares.add(job, job.tenant_id, job.weight);
  PushChecks* const checks = job.shard.reader.checks();
  if (checks != nullptr && connection.in_place && connection.role == PeerRole::kWorker) {
    checks->read_from(connection.worker, connection.window, connection.window_layout);
  }
  lane.connections[*id] = &connection;
  losses_.connections.fetch_add(1, std::memory_order_relaxed);
  return {};
}

template <typename OneLane, typename Peer>
Status Core::attach(OneLane& lane, std::unique_ptr<Connection> connection, Peer peer,
                    std::unique_ptr<Connection>& place) {
  Status status;
  call([&] {
    status = place ? is_connected() : enter(lane, *connection, std::move(peer));
    if (status.ok()) place = std::move(connection);
  });
  return status;
}

Status Core::connect_tcp(JobOnCore* job, std::uint32_t worker, transport::TcpStream stream) {
  return attach(*tcp_, std::make_unique<Connection>(job, worker), std::move(stream),
                job->connections[worker]);
}

Status Core::connect_tcp(JobOnCore* job, std::uint32_t worker,
                         std::vector<transport::TcpStream> streams) {
  const auto count = static_cast<std::uint32_t>(streams.size());
  auto connection = std::make_unique<Connection>(job, worker);
  connection->become_stream(0, count, nullptr);
  for (std::uint32_t index = 1; index < count; ++index) {
    connection->further.push_back(std::make_unique<Connection>(job, worker));
    connection->further.back()->become_stream(index, count, connection.get());
  }
  std::vector<Connection*> entered;
  entered.reserve(count);
  Status status;
  call([&] {
    std::unique_ptr<Connection>& place = job->connections[worker];
    if (place) status = is_connected();
    connection->for_each_stream([&](Connection& stream) {
      if (status.ok()) status = enter(*tcp_, stream, std::move(streams[stream.stream]));
      if (status.ok()) entered.push_back(&stream);
    });
    if (status.ok()) {
      place = std::move(connection);
      return;
    }
    for (Connection* stream : entered) {  // nothing of them has been read yet
      leave(*stream);
      tcp_->forget(*stream);
    }
  });
  return status;
}

Status Core::connect_shm(JobOnCore* job, std::uint32_t worker, transport::ShmConnection peer,
                         std::byte* line, std::shared_ptr<const WindowLayout> layout) {
  return attach(*shm_, std::make_unique<Connection>(job, worker, line, std::move(layout)),
                std::move(peer), job->connections[worker]);
}

Status Core::connect_verbs(JobOnCore* job, std::uint32_t worker, transport::VerbsConnection peer,
                           std::byte* window, std::shared_ptr<const WindowLayout> layout) {
  auto connection = std::make_unique<Connection>(job, worker, window, std::move(layout));
  connection->sparse_replies = job->shard.updates.replies.may_write_changes(peer.peer.window_bytes);
  return attach(*verbs_, std::move(connection), std::move(peer), job->connections[worker]);
}

namespace {
std::unique_ptr<Connection> connection_to(JobOnCore* job, const RackAbove& above) {
  const std::uint32_t seat = job->shard.racks->place().seat_of(above.rack, job->workers);
  auto connection = std::make_unique<Connection>(job, seat);
  connection->role = PeerRole::kRackAbove;
  connection->sparse_replies = false;  // it is sent sums
  connection->counters = &job->above_counters[above.rack];
  connection->epoch = above.epoch;
  connection->words = job->shard.exchange->words();
  return connection;
}
}  // namespace

Status Core::connect_rack(JobOnCore* job, const RackAbove& above, transport::TcpStream stream) {
  return attach(*tcp_, connection_to(job, above), std::move(stream), job->above[above.rack]);
}

Status Core::connect_rack(JobOnCore* job, const RackAbove& above, transport::ShmConnection peer) {
  auto connection = connection_to(job, above);
  connection->window = peer.peer_memory->data();
  return attach(*shm_, std::move(connection), std::move(peer), job->above[above.rack]);
}

Status Core::connect_rack(JobOnCore* job, const RackAbove& above, transport::VerbsConnection peer,
                          std::shared_ptr<const WindowLayout> layout) {
  call([&] { job->shard.exchange->replies_land_unseen = true; });
  auto connection = connection_to(job, above);
  connection->window_layout = std::move(layout);
  return attach(*verbs_, std::move(connection), std::move(peer), job->above[above.rack]);
}

CoreCounters Core::counters() const {
  const auto alive = std::chrono::duration_cast<std::chrono::nanoseconds>(
      std::chrono::steady_clock::now() - started_);
  const std::uint64_t total = static_cast<std::uint64_t>(alive.count());
  return {.cpu = options_.cpu ? static_cast<std::int32_t>(*options_.cpu) : -1,
          .chunks_completed = replies_.chunks_completed.value(),
          .bytes_received = bytes_received_.value(),
          .bytes_sent = replies_.bytes_sent.value(),
          .busy_nanoseconds = total - std::min(total, thread_->waiter().slept_nanoseconds()),
          .sleeps = thread_->waiter().sleeps(),
          .connections = losses_.connections.load(std::memory_order_relaxed)};
}

}  // namespace phub::server
