#include "server/core/tcp_lane.h"

#include <algorithm>
#include <cstring>
#include <functional>

#include "common/protocol/wire.h"

namespace phub::server {

using transport::Completion;

Result<std::unique_ptr<TcpLane>> TcpLane::create(std::uint32_t max_connections,
                                                 const transport::EndpointFront& front,
                                                 Turns& turns) {
  std::unique_ptr<TcpLane> lane(new TcpLane(max_connections, turns));
  PHUB_ASSIGN_OR_RETURN(lane->tcp_,
                        transport::TcpEndpoint::create({.max_peers = max_connections}, *lane));
  lane->endpoint_ = lane->tcp_.get();
  if (!front) return lane;
  PHUB_ASSIGN_OR_RETURN(lane->front_, front(*lane->tcp_, max_connections));
  lane->endpoint_ = lane->front_.get();
  return lane;
}

std::size_t TcpLane::read(JobOnCore& job, std::span<Completion> completions) {
  if (job.ready.empty()) return 0;
  const std::size_t most = writes_of_each(job);
  if (most == 0) return 0;
  const std::uint64_t start = turns_.now();
  std::size_t count = 0;
  for (std::size_t streams = job.ready.size(); streams > 0 && count < completions.size();
       --streams) {
    Connection& connection = job.ready.pop();
    const std::size_t room = std::min(most, completions.size() - count);
    const auto taken = tcp_->read(connection.peer, completions.subspan(count, room));
    count += taken.writes;
    if (taken.more) job.ready.push(connection);
  }
  attribute(job, completions.first(count), turns_.now() - start);
  return count;
}

std::size_t TcpLane::writes_of_each(const JobOnCore& job) const {
  if (job.arrivals.size() >= kReadsInATurn) return 0;  // in order, and from the cache
  if (!turns_.are_taken()) return kReadsInATurn;
  const std::uint64_t owed = turns_.shares.owed(job);
  if (owed == 0) return 0;
  const Prices& prices = *job.ready.front().prices;
  const std::uint64_t cost = prices.cost(job.shard.push_bytes(0)) * job.all_streams;
  return std::min<std::uint64_t>(1 + (owed - 1) / cost, kReadsInATurn);
}

void TcpLane::attribute(JobOnCore& job, std::span<const Completion> arrived, std::uint64_t spent) {
  std::uint64_t bytes = 0;
  for (const Completion& completion : arrived) bytes += completion.bytes;
  if (bytes == 0) return turns_.charge(job, spent);
  for (const Completion& completion : arrived) {
    turns_.spend(*connections[completion.peer], completion.bytes, spent * completion.bytes / bytes);
  }
}

bool TcpLane::reads_later(transport::PeerId peer) {
  Connection& connection = *connections[peer];
  connection.job->ready.push(connection);
  turns_.shares.wake(*connection.job);
  return true;
}

namespace {
// A sum, or a reply to one.
std::byte* place_for_rack(Connection& connection, std::uint32_t immediate, std::uint32_t bytes) {
  Shard& shard = connection.job->shard;
  if (connection.role == PeerRole::kRackAbove) {
    const std::uint32_t slot = wire::reply_slot_of(immediate);
    if (!connection.carries(slot)) return nullptr;
    return shard.rack_rounds->place_of_reply(connection.worker, slot, bytes);
  }
  const std::uint32_t slot = wire::slot_of(immediate);
  const bool is_right = connection.carries(slot) && shard.exchange->may_push(slot, bytes);
  return is_right ? connection.job->staging->take_for_push() : nullptr;
}
}  // namespace

std::byte* TcpLane::acquire(transport::PeerId peer, std::uint32_t immediate, std::uint32_t bytes) {
  Connection& connection = *connections[peer];
  const std::uint32_t slot = wire::slot_of(immediate);
  if (wire::is_control(slot) && connection.role != PeerRole::kRackAbove) {
    if (bytes != wire::word_bytes(slot)) return nullptr;
    return connection.arriving.data() + wire::offset_in_line(slot);
  }
  if (connection.role != PeerRole::kWorker) return place_for_rack(connection, immediate, bytes);
  const bool is_right =
      connection.carries(slot) && connection.job->shard.reader.may_push(slot, bytes);
  return is_right ? connection.job->staging->take_for_push() : nullptr;
}

// A buffer has room for it.
std::byte* TcpLane::acquire_checked(transport::PeerId peer, std::uint32_t immediate,
                                    std::uint32_t bytes, std::uint32_t checksum) {
  const Connection& connection = *connections[peer];
  const std::uint32_t slot = wire::slot_of(immediate);
  const bool is_right = connection.role == PeerRole::kWorker && connection.carries(slot);
  if (!is_right || !connection.job->shard.reader.may_push_checked(slot, bytes)) return nullptr;
  std::byte* const place = connection.job->staging->take_for_push();
  if (place != nullptr) std::memcpy(place + bytes, &checksum, sizeof(checksum));
  return place;
}

void TcpLane::release(transport::PeerId peer, std::byte* data) {
  Connection& connection = *connections[peer];
  const bool is_staged = connection.job->staging->owns(data);
  if (connection.role == PeerRole::kRackAbove && !is_staged) return;  // it is where parameters are
  const std::byte* const words = connection.arriving.data();
  if (std::less<>()(data, words) || !std::less<>()(data, words + connection.arriving.size())) {
    connection.job->staging->give(data);
  }
}

}  // namespace phub::server
