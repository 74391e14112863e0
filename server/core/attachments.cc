#include "server/core/attachments.h"

namespace phub::server {

namespace {

Status is_connected() {
  return {Code::kAlreadyExists, "the worker has, or had, a connection to this core"};
}

std::unique_ptr<Connection> connection_to(JobOnCore* job, const RackAbove& above) {
  const std::uint32_t seat = job->shard.racks->place().seat_of(above.rack, job->workers);
  auto connection = std::make_unique<Connection>(job, seat);
  connection->role = PeerRole::kRackAbove;
  connection->sparse_replies = false;  // it is sent sums
  connection->counters = &job->above_counters[above.rack];
  connection->epoch = above.epoch;
  connection->words = job->shard.exchange->words();
  if (above.route != nullptr) connection->follow(*above.route, above.peer, nullptr);
  return connection;
}

void become_stream(Connection& stream, std::uint32_t index, std::uint32_t count,
                   const CoreRoute* route, Connection* first) {
  route == nullptr ? stream.become_stream(index, count, first)
                   : stream.follow(*route, index, first);
}

}  // namespace

void Attachments::detach(JobOnCore* job) {
  core_.thread.call([&] {
    core_.turns.shares.remove(*job);
    core_.due.forget(*job);
    for (auto& connection : job->connections) end(connection);
    for (auto& connection : job->above) end(connection);
  });
  for (Lane* lane : core_.lanes.all) lane->destroy_ended(core_.thread);
}

void Attachments::end(std::unique_ptr<Connection>& connection) {
  if (!connection) return;
  connection->for_each_stream([&](Connection& stream) {
    core_.replies.forget(stream);
    core_.paused.forget(stream);
    stream.job->ready.remove(stream);
    if (!stream.lost) leave(stream);
    for (Lane* lane : core_.lanes.all) lane->forget(stream);
  });
  connection.reset();
}

void Attachments::leave(Connection& connection) {
  connection.endpoint->remove(connection.peer);
  core_.losses.connections.fetch_sub(1, std::memory_order_relaxed);
}

template <typename OneLane, typename Peer>
Status Attachments::enter(OneLane& lane, Connection& connection, Peer peer) {
  JobOnCore& job = *connection.job;
  const auto id = lane.endpoint().add(std::move(peer));
  if (!id) return id.error();
  connection.endpoint = &static_cast<const Lane&>(lane).endpoint();
  connection.peer = *id;
  PriceList::Kind kind = job.kind;
  kind.transport = connection.endpoint;
  // What a byte of these takes is no measure for others.
  const bool has_own = job.shard.members.rounds() != nullptr || job.compresses_racks();
  connection.prices = has_own ? &job.own_prices : &core_.turns.prices.of(kind);
  if (!job.is_added()) core_.turns.shares.add(job, job.tenant_id, job.weight);
  PushChecks* const checks = job.shard.reader.checks();
  if (checks != nullptr && connection.in_place && connection.role == PeerRole::kWorker) {
    checks->read_from(connection.worker, connection.window, connection.window_layout);
  }
  lane.connections[*id] = &connection;
  core_.losses.connections.fetch_add(1, std::memory_order_relaxed);
  return {};
}

template <typename OneLane, typename Peer>
Status Attachments::attach(OneLane& lane, std::unique_ptr<Connection> connection, Peer peer,
                           std::unique_ptr<Connection>& place) {
  Status status;
  core_.thread.call([&] {
    status = place ? is_connected() : enter(lane, *connection, std::move(peer));
    if (status.ok()) place = std::move(connection);
  });
  return status;
}

Status Attachments::connect_tcp(JobOnCore* job, std::uint32_t worker, transport::TcpStream stream) {
  return attach(*core_.lanes.tcp, std::make_unique<Connection>(job, worker), std::move(stream),
                job->connections[worker]);
}

Status Attachments::connect_tcp(JobOnCore* job, std::uint32_t worker,
                                std::vector<transport::TcpStream> streams, const CoreRoute* route) {
  const auto count = static_cast<std::uint32_t>(streams.size());
  auto connection = std::make_unique<Connection>(job, worker);
  become_stream(*connection, 0, count, route, nullptr);
  for (std::uint32_t index = 1; index < count; ++index) {
    connection->further.push_back(std::make_unique<Connection>(job, worker));
    become_stream(*connection->further.back(), index, count, route, connection.get());
  }
  std::vector<Connection*> entered;
  entered.reserve(count);
  Status status;
  core_.thread.call([&] {
    std::unique_ptr<Connection>& place = job->connections[worker];
    if (place) status = is_connected();
    connection->for_each_stream([&](Connection& stream) {
      if (status.ok()) status = enter(*core_.lanes.tcp, stream, std::move(streams[stream.stream]));
      if (status.ok()) entered.push_back(&stream);
    });
    if (status.ok()) {
      if (route != nullptr) job->arrivals.grow((count - 1) * std::size_t{Connection::kWords});
      place = std::move(connection);
      return;
    }
    for (Connection* stream : entered) {  // nothing of them has been read yet
      leave(*stream);
      core_.lanes.tcp->forget(*stream);
    }
  });
  return status;
}

Status Attachments::connect_shm(JobOnCore* job, std::uint32_t worker, transport::ShmConnection peer,
                                std::byte* line, std::shared_ptr<const WindowLayout> layout) {
  return attach(*core_.lanes.shm,
                std::make_unique<Connection>(job, worker, line, std::move(layout)), std::move(peer),
                job->connections[worker]);
}

Status Attachments::connect_verbs(JobOnCore* job, std::uint32_t worker,
                                  transport::VerbsConnection peer, std::byte* window,
                                  std::shared_ptr<const WindowLayout> layout) {
  auto connection = std::make_unique<Connection>(job, worker, window, std::move(layout));
  if (connection->role == PeerRole::kWorker) {
    connection->sparse_replies =
        job->shard.updates.replies.may_write_changes(peer.peer.window_bytes);
  }
  return attach(*core_.lanes.verbs, std::move(connection), std::move(peer),
                job->connections[worker]);
}

Status Attachments::connect_rack(JobOnCore* job, const RackAbove& above,
                                 transport::TcpStream stream) {
  std::unique_ptr<Connection>& first = job->above[above.rack];
  auto connection = connection_to(job, above);
  if (above.peer == 0) {
    return attach(*core_.lanes.tcp, std::move(connection), std::move(stream), first);
  }
  Status status;
  core_.thread.call([&] {
    if (!first || first->lost || first->further.size() + 1 != above.peer) {
      status = {Code::kFailedPrecondition,
                "that rack's connection to this core was lost while others were made"};
      return;
    }
    status = enter(*core_.lanes.tcp, *connection, std::move(stream));
    if (!status.ok()) return;
    connection->first = first.get();
    job->arrivals.grow(Connection::kWords);
    first->further.push_back(std::move(connection));
  });
  return status;
}

Status Attachments::connect_rack(JobOnCore* job, const RackAbove& above,
                                 transport::ShmConnection peer) {
  auto connection = connection_to(job, above);
  connection->window = peer.peer_memory->data();
  return attach(*core_.lanes.shm, std::move(connection), std::move(peer), job->above[above.rack]);
}

Status Attachments::connect_rack(JobOnCore* job, const RackAbove& above,
                                 transport::VerbsConnection peer,
                                 std::shared_ptr<const WindowLayout> layout) {
  core_.thread.call([&] {
    RackExchange& exchange = *job->shard.exchange;
    exchange.replies_land_unseen = !exchange.compresses();
  });
  auto connection = connection_to(job, above);
  connection->window_layout = std::move(layout);
  return attach(*core_.lanes.verbs, std::move(connection), std::move(peer), job->above[above.rack]);
}

}  // namespace phub::server
