#include "server/core/losses.h"

namespace phub::server {

void Losses::drop(Connection& connection, Drop cause, std::string_view reason) {
  if (connection.lost) return;
  connection.main().for_each_stream([](Connection& stream) { stream.lost = true; });
  if (cause != Drop::kCount) drops_.count(cause);
  JobOnCore& job = *connection.job;
  const bool is_worker = connection.role == PeerRole::kWorker;
  const bool goes_on = is_worker ? job.shard.lose(connection.worker) : loses_rack(connection);
  if (!goes_on) job.shard.stop();
  events_.push({job.job_id, connection.worker, reason, goes_on});
  connection.main().for_each_stream([&](Connection& stream) {
    connections.fetch_sub(1, std::memory_order_relaxed);
    stream.endpoint->remove(stream.peer);
    job.ready.remove(stream);
  });
  if (goes_on) is_worker ? go_on(job) : go_on_without_rack(connection, reason);
  if (on_event_) on_event_();
}

bool Losses::loses_rack(const Connection& connection) {
  JobOnCore& job = *connection.job;
  const std::uint32_t rack = job.shard.racks->place().rack_at(connection.worker, job.workers);
  return !job.shard.stopped() && job.shard.rack_rounds->lose(rack);
}

// A rack has two connections here. Without it an outer step may have all racks.
void Losses::go_on_without_rack(Connection& connection, std::string_view reason) {
  JobOnCore& job = *connection.job;
  const std::uint32_t rack = job.shard.racks->place().rack_at(connection.worker, job.workers);
  const bool is_above = connection.role == PeerRole::kRackAbove;
  Connection* const other =
      is_above ? job.connections[connection.worker].get() : job.above[rack].get();
  if (other != nullptr) drop(*other, Drop::kCount, reason);
  for (std::uint32_t slot = 0; slot < job.shard.chunks(); ++slot) due_.follow_exchange(job, slot);
}

// Without a worker others may be complete, or not too far ahead any more.
void Losses::go_on(JobOnCore& job) {
  for (std::uint32_t slot = 0; slot < job.shard.chunks(); ++slot) {
    if (job.shard.go_on(slot)) due_.add(job);
    replies_.release(job, slot);
  }
}

}  // namespace phub::server
