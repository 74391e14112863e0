// What the data plane tells of its cores, its jobs and what it refused.
#include <algorithm>

#include "server/plane/pinned_data_plane.h"

namespace phub::server {
namespace {

void add_counters(const JobOnCore& on_core, JobCounters& counters) {
  counters.chunks += on_core.shard.chunks();
  counters.chunks_completed += on_core.shard.chunks_completed.value();
  counters.staging_bytes += on_core.staging->touched_bytes();
  // Each core counts the rounds that are skipped on all of them.
  counters.rounds_skipped = std::max(counters.rounds_skipped, on_core.shard.skipped.rounds.value());
  counters.updates_skipped += on_core.shard.skipped.updates.value();
  counters.queued_pushes += on_core.arrivals.length();
  counters.push_to_reply.add(on_core.times.push_to_reply.counts());
  counters.wait_for_slowest.add(on_core.times.wait_for_slowest.counts());
  counters.workers.resize(on_core.kind.workers);
  for (std::uint32_t i = 0; i < on_core.kind.workers; ++i) {
    const WorkerCounters& worker = on_core.worker_counters[i];
    counters.workers[i].pushes += worker.pushes.value();
    counters.workers[i].bytes_received += worker.bytes_received.value();
    counters.workers[i].bytes_sent += worker.bytes_sent.value();
    counters.bytes_received += worker.bytes_received.value();
    counters.bytes_sent += worker.bytes_sent.value();
  }
}

}  // namespace

std::vector<CorePort> PinnedDataPlane::verbs_ports() const {
  std::vector<CorePort> identities;
  for (const OpenPort& port : ports_) identities.push_back(port.identity);
  return identities;
}

std::uint64_t PinnedDataPlane::touched_bytes(const Job& job) {
  std::uint64_t elements = 0;
  for (const auto& on_core : job.on_cores) elements += on_core->shard.elements_touched.value();
  return elements * job.memory->element_bytes() + job.bookkeeping_bytes;
}

std::uint64_t PinnedDataPlane::staged_beyond(const Job& job) const {
  std::uint64_t bytes = 0;
  for (const auto& on_core : job.on_cores) bytes += on_core->staging->touched_bytes();
  std::uint64_t counted = offered().staging ? bytes_of_staging(job.shape) : 0;
  if (defers_updates(job.shape)) counted += elements_here(job.shape) * sizeof(float);  // held sums
  return bytes - std::min(bytes, counted);
}

StagedBeyond PinnedDataPlane::staged_beyond() const {
  const std::lock_guard lock(mutex_);
  StagedBeyond all;
  for (const auto& [id, job] : jobs_) {
    if (const std::uint64_t bytes = staged_beyond(*job); bytes > 0) all[id] = bytes;
  }
  return all;
}

std::optional<JobCounters> PinnedDataPlane::job_counters(std::uint64_t job_id) const {
  const std::lock_guard lock(mutex_);
  const auto found = jobs_.find(job_id);
  if (found == jobs_.end()) return std::nullopt;
  JobCounters counters;
  counters.rounds_before = found->second->shape.rounds_before;
  for (const auto& on_core : found->second->on_cores) add_counters(*on_core, counters);
  for (const auto& [device, memory] : found->second->verbs) {
    counters.staging_bytes += memory->window_bytes();
    counters.reserved_page_bytes += memory->reserved_page_bytes();
  }
  counters.memory_bytes = counters.staging_bytes + touched_bytes(*found->second);
  counters.reserved_page_bytes += found->second->memory->reserved_page_bytes();
  return counters;
}

std::vector<CoreRounds> PinnedDataPlane::job_rounds(std::uint64_t job_id,
                                                    std::size_t rounds) const {
  const std::lock_guard lock(mutex_);
  std::vector<CoreRounds> result;
  const auto found = jobs_.find(job_id);
  if (found == jobs_.end()) return result;
  for (std::uint32_t i = 0; i < cores_.size(); ++i) {
    const JobOnCore& on_core = *found->second->on_cores[i];
    if (on_core.shard.chunks() > 0)
      result.push_back({i, cores_[i]->rounds(on_core, rounds, start_ticks_)});
  }
  return result;
}

std::vector<CoreCounters> PinnedDataPlane::core_counters() const {
  const std::lock_guard lock(mutex_);
  std::vector<CoreCounters> counters;
  for (std::size_t i = 0; i < cores_.size(); ++i) {
    counters.push_back(cores_[i]->counters());
    for (const auto& [id, job] : jobs_) {
      const JobOnCore& on_core = *job->on_cores[i];
      if (on_core.shard.chunks() > 0)
        counters.back().jobs.push_back(cores_[i]->job_counters(on_core));
    }
  }
  return counters;
}

std::vector<DropCounter> PinnedDataPlane::drops() const {
  std::vector<DropCounter> result;
  for (std::size_t i = 0; i < kDropNames.size(); ++i) {
    std::uint64_t count = acceptor_->drops().value(static_cast<Drop>(i));
    for (const auto& core : cores_) count += core->drops().value(static_cast<Drop>(i));
    result.push_back({kDropNames[i], count});
  }
  return result;
}

}  // namespace phub::server
