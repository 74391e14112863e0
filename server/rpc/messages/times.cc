#include "server/rpc/messages/messages.h"

namespace phub::server {
namespace {

constexpr double kNanosecondsPerSecond = 1e9;

void fill(const LatencyCounts& counts, control::LatencyHistogram& message) {
  for (std::size_t i = 0; i < LatencyCounts::kBounds; ++i) {
    message.add_bounds_seconds(LatencyCounts::bound_seconds(i));
  }
  message.mutable_counts()->Add(counts.counts.begin(), counts.counts.end());
  message.set_sum_seconds(static_cast<double>(counts.sum_nanoseconds) / kNanosecondsPerSecond);
}

void fill(const JobView& view, const RoundRecord& round, control::RoundRecord& record) {
  record.set_round(round.round);
  record.set_first_push_ns(round.first_push);
  record.set_complete_ns(round.complete);
  record.set_replied_ns(round.replied);
  record.set_core_ns(round.work);
  std::uint32_t index = view.rack.first_worker;
  for (const WorkerSpan& worker : round.workers) {
    control::WorkerSpan& span = *record.add_workers();
    span.set_worker_index(index++);
    span.set_first_push_ns(worker.first_push);
    span.set_last_push_ns(worker.last_push);
  }
  for (std::size_t i = 0; i < round.racks.size(); ++i) {
    if (round.racks[i].last == 0) continue;
    control::RackSpan& span = *record.add_racks();
    span.set_rack(view.spec->racks[i].name);
    span.set_first_ns(round.racks[i].first);
    span.set_last_ns(round.racks[i].last);
  }
}

}  // namespace

void fill(const JobView& view, const std::optional<JobTiming>& timing,
          control::JobTiming& message) {
  const JobCounters& counters = view.counters;
  fill(counters.push_to_reply, *message.mutable_push_to_reply());
  fill(counters.wait_for_slowest, *message.mutable_wait_for_slowest());
  message.set_queued_pushes(counters.queued_pushes);
  if (!timing) return;
  message.set_rounds(timing->rounds);
  message.set_round_seconds(timing->round_seconds);
  message.set_push_seconds(timing->push_seconds);
  message.set_wait_seconds(timing->wait_seconds);
  message.set_racks_seconds(timing->racks_seconds);
  message.set_aggregate_seconds(timing->aggregate_seconds);
  message.set_reply_seconds(timing->reply_seconds);
  message.set_compute_seconds(timing->compute_seconds);
  message.set_core_seconds(timing->core_seconds);
  for (std::size_t i = 0; i < timing->workers.size(); ++i) {
    control::WorkerTiming& worker = *message.add_workers();
    worker.set_worker_index(view.rack.first_worker + static_cast<std::uint32_t>(i));
    worker.set_last_share(timing->workers[i].last_share);
    worker.set_late_seconds(timing->workers[i].late_seconds);
  }
  for (std::size_t i = 0; i < timing->racks.size(); ++i) {
    if (!timing->racks[i].brings) continue;
    control::RackTiming& rack = *message.add_racks();
    rack.set_rack(view.spec->racks[i].name);
    rack.set_last_share(timing->racks[i].last_share);
    rack.set_late_seconds(timing->racks[i].late_seconds);
    rack.set_arrival_seconds(timing->racks[i].arrival_seconds);
  }
}

void fill(const std::vector<CoreJobCounters>& jobs, const std::map<std::uint64_t, JobView>& views,
          control::CoreInfo& message) {
  for (const CoreJobCounters& job : jobs) {
    const auto view = views.find(job.job_id);
    if (view == views.end()) continue;
    control::CoreJob& entry = *message.add_jobs();
    entry.set_job_id(job.job_id);
    entry.set_name(view->second.spec->name);
    entry.set_tenant(view->second.tenant);
    entry.set_chunks_completed(job.chunks_completed);
    entry.set_bytes_received(job.bytes_received);
    entry.set_bytes_sent(job.bytes_sent);
    entry.set_busy_seconds(static_cast<double>(job.busy_nanoseconds) / kNanosecondsPerSecond);
    entry.set_queued_pushes(job.queued_pushes);
  }
}

void fill(const JobView& view, const std::vector<CoreRounds>& rounds,
          control::TraceReply& message) {
  for (const CoreRounds& core : rounds) {
    for (const RoundRecord& round : core.records) {
      control::RoundRecord& record = *message.add_records();
      record.set_core(core.core);
      fill(view, round, record);
    }
  }
}

}  // namespace phub::server
