#include "server/core/losses.h"

namespace phub::server {

void Losses::drop(Connection& connection, Drop cause, std::string_view reason) {
  if (connection.lost) return;
  connection.main().for_each_stream([](Connection& stream) { stream.lost = true; });
  if (cause != Drop::kCount) drops_.count(cause);
  JobOnCore& job = *connection.job;
  const bool goes_on = connection.role == PeerRole::kWorker && job.shard.lose(connection.worker);
  if (!goes_on) job.shard.stop();
  events_.push({job.job_id, connection.worker, reason, goes_on});
  connection.main().for_each_stream([&](Connection& stream) {
    connections.fetch_sub(1, std::memory_order_relaxed);
    stream.endpoint->remove(stream.peer);
    job.ready.remove(stream);
  });
  if (goes_on) go_on(job);
  if (on_event_) on_event_();
}

// Without a worker others may be complete, or not too far ahead any more.
void Losses::go_on(JobOnCore& job) {
  for (std::uint32_t slot = 0; slot < job.shard.chunks(); ++slot) {
    if (job.shard.go_on(slot)) due_.add(job);
    replies_.release(job, slot);
  }
}

}  // namespace phub::server
