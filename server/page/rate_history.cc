#include "server/page/rate_history.h"

#include <algorithm>
#include <utility>

namespace phub::server {
namespace {

template <typename Entry>
const Entry* find(const std::vector<Entry>& entries, std::uint64_t job_id) {
  const auto found =
      std::lower_bound(entries.begin(), entries.end(), job_id,
                       [](const Entry& entry, std::uint64_t id) { return entry.job_id < id; });
  return found == entries.end() || found->job_id != job_id ? nullptr : &*found;
}

// Counters may seem to go back where a core is just counting.
float per_second(std::uint64_t now, std::uint64_t before, double seconds) {
  return now < before ? 0.0F : static_cast<float>(static_cast<double>(now - before) / seconds);
}

}  // namespace

bool RateHistory::is_due(TimePoint now) const {
  const std::lock_guard lock(mutex_);
  return !last_ || now - *last_ >= kInterval;
}

void RateHistory::add(TimePoint now, Totals totals) {
  if (totals.jobs.size() > kJobsMax) totals.jobs.resize(kJobsMax);
  const std::lock_guard lock(mutex_);
  if (last_ && now > *last_) {
    points_.push_back(point_of(totals, std::chrono::duration<double>(now - *last_).count()));
    if (points_.size() > kPoints) points_.pop_front();
  }
  last_ = now;
  last_totals_ = std::move(totals);
}

RateHistory::Point RateHistory::point_of(const Totals& totals, double seconds) const {
  Point point;
  for (const JobTotals& job : totals.jobs) {
    const JobTotals* const before = find(last_totals_.jobs, job.job_id);
    if (before == nullptr) continue;
    point.jobs.push_back(
        {.job_id = job.job_id,
         .rounds = static_cast<float>(std::max(0.0, job.rounds - before->rounds) / seconds),
         .received = per_second(job.bytes_received, before->bytes_received, seconds),
         .sent = per_second(job.bytes_sent, before->bytes_sent, seconds)});
  }
  const std::vector<std::uint64_t>& before = last_totals_.busy_nanoseconds;
  for (std::size_t core = 0; core < totals.busy_nanoseconds.size() && core < before.size();
       ++core) {
    const float busy = per_second(totals.busy_nanoseconds[core], before[core], seconds * 1e9);
    point.busy.push_back(std::min(1.0F, busy));
  }
  return point;
}

void RateHistory::fill(TimePoint now, const std::function<bool(std::uint64_t job_id)>& sees,
                       page::PageHistory& message) const {
  const std::lock_guard lock(mutex_);
  message.set_interval_seconds(std::chrono::duration<double>(kInterval).count());
  if (points_.empty()) return;
  message.set_seconds_ago(std::chrono::duration<double>(now - *last_).count());
  for (const JobPoint& latest : points_.back().jobs) {
    if (!sees(latest.job_id)) continue;
    page::JobHistory& history = *message.add_jobs();
    history.set_job_id(latest.job_id);
    for (const Point& point : points_) {
      const JobPoint* const job = find(point.jobs, latest.job_id);
      if (job == nullptr) continue;  // before it was made
      history.add_rounds_per_second(job->rounds);
      history.add_bytes_received_per_second(job->received);
      history.add_bytes_sent_per_second(job->sent);
    }
  }
  for (std::size_t core = 0; core < points_.back().busy.size(); ++core) {
    page::CoreHistory& history = *message.add_cores();
    for (const Point& point : points_) {
      if (core < point.busy.size()) history.add_busy_share(point.busy[core]);
    }
  }
}

}  // namespace phub::server
