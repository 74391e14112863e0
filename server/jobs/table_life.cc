// How jobs end: lost workers, the reaper, draining.
#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "common/base/log_value.h"
#include "server/jobs/table.h"

namespace phub::server {
namespace {

constexpr std::size_t kKeysShownMax = 4096;  // of an ended job

}  // namespace

std::optional<IssuedSecret> JobTable::secret_of(std::uint64_t job_id, std::uint32_t epoch,
                                                std::uint32_t worker) {
  const Lock lock(mutex_);
  const auto found = jobs_.find(job_id);
  if (found == jobs_.end() || !is_live(*found->second)) return std::nullopt;
  const Job& job = *found->second;
  const auto member = job.members.find(worker);
  if (job.epoch != epoch || member == job.members.end()) return std::nullopt;
  if (!member->second->is_ready || member->second->has_left) return std::nullopt;
  const auto age = now() - member->second->secret_issued;
  return IssuedSecret{.secret = member->second->secret,
                      .has_expired = age > options_.join_secret_lifetime};
}

void JobTable::on_lost(std::uint64_t job_id, std::uint32_t worker, std::string_view reason) {
  const AnsweringLock lock(*this);
  const auto found = jobs_.find(job_id);
  if (found == jobs_.end() || !is_live(*found->second)) return;
  Job& job = *found->second;
  const auto member = job.members.find(worker);
  if (member == job.members.end() || member->second->has_left) return;
  lose(job, *member->second, reason);
}

void JobTable::lose(Job& job, Member& member, std::string_view reason) {
  member.was_lost = true;
  finish(job, JobState::kFailed, fmt::format("{} was lost: {}", describe(member), reason));
}

void JobTable::finish(Job& job, JobState state, const std::string& reason) {
  job.state = state;
  job.reason = reason;
  live_by_name_.erase(name_of(job));
  // What the daemon ends because it stops comes back with the next one.
  if (job.saved == Saved::kYes && !job.ended_by_daemon) journal_ends_.push_back(job.id);
  if (job.memory == Memory::kHeld) job.memory = Memory::kToRelease;
  if (job.memory == Memory::kNone) forget_keys(job);
  const auto level = state == JobState::kEnded ? spdlog::level::info : spdlog::level::warn;
  spdlog::log(level, "event=job_{} job={} id={} reason={}", name_of(state), log_value(label(job)),
              job.id, log_value(reason));
  answer_starts(job, job_is_over(job));
  forget_oldest();
  changed_.notify_all();
}

// Of an ended job that has many: a list of them is for people, and takes its tenant's allowance.
void JobTable::forget_keys(Job& job) {
  if (job.spec->keys.size() <= kKeysShownMax) return;
  JobSpec spec = *job.spec;
  spec.keys = std::vector<JobKey>();
  job.spec = std::make_shared<const JobSpec>(std::move(spec));
}

void JobTable::forget_oldest() {
  std::size_t finished = jobs_.size() - live_by_name_.size();
  for (auto entry = jobs_.begin(); entry != jobs_.end() && finished > options_.finished_jobs_max;) {
    const Job& job = *entry->second;
    const bool has_no_memory = job.memory == Memory::kNone || job.memory == Memory::kReleased;
    if (!is_live(job) && has_no_memory) {
      entry = jobs_.erase(entry);
      --finished;
    } else {
      ++entry;
    }
  }
}

bool JobTable::has_memory(Memory memory) const {
  return std::any_of(jobs_.begin(), jobs_.end(),
                     [memory](const auto& entry) { return entry.second->memory == memory; });
}

void JobTable::reap() {
  fail_the_late();
  const auto staged = data_plane_ == nullptr ? StagedBeyond() : data_plane_->staged_beyond();
  Lock lock(mutex_);
  for (const auto& [id, job] : jobs_) {
    const auto found = staged.find(id);
    job->staged_beyond_bytes = found == staged.end() ? 0 : found->second;
  }
  tell_journal(lock);
  stock_ids(lock);
  release_finished(lock);
}

void JobTable::fail_the_late() {
  AnsweringLock lock(*this);
  const TimePoint time = now();
  for (const std::shared_ptr<Job>& job : all_live()) {
    if (drain_deadline_ && time >= *drain_deadline_) {
      if (drain_snapshots_ && job->state == JobState::kRunning && options_.before_drain_ends) {
        const JobView view = view_of(*job);
        lock.unlock();
        options_.before_drain_ends(view);
        lock.lock();
        if (!is_live(*job)) continue;
      }
      job->ended_by_daemon = true;
      finish(*job, JobState::kFailed, "the server was drained and did not wait any longer for it");
      continue;
    }
    for (const auto& [worker, member] : job->members) {
      if (member->has_left || member->calls > 0) continue;
      if (time - member->last_seen <= options_.heartbeat_deadline) continue;
      lose(*job, *member,
           fmt::format("no heartbeat for {} ms", options_.heartbeat_deadline.count()));
      break;
    }
  }
}

// What could not be written, as on a full disk, is tried again at the next reap.
void JobTable::tell_journal(Lock& lock) {
  std::vector<std::uint64_t> late;
  std::vector<std::uint64_t> ended = std::exchange(journal_late_, {});
  std::size_t logged = ended.size();  // the first so many, when they failed before
  while (!ended.empty() || !journal_ends_.empty()) {
    ended.insert(ended.end(), journal_ends_.begin(), journal_ends_.end());
    journal_ends_.clear();
    lock.unlock();
    for (std::size_t i = 0; i < ended.size(); ++i) {
      const std::uint64_t id = ended[i];
      const Status told = options_.journal->ended(id);
      if (told.ok()) continue;
      late.push_back(id);
      if (i < logged) continue;
      spdlog::error("event=job_not_forgotten id={} reason={}", id, log_value(told.message()));
    }
    ended.clear();
    logged = 0;
    lock.lock();
    changed_.notify_all();
  }
  journal_late_ = std::move(late);
}

void JobTable::release_finished(Lock& lock) {
  while (true) {
    const auto found = std::find_if(jobs_.begin(), jobs_.end(), [](const auto& entry) {
      return entry.second->memory == Memory::kToRelease;
    });
    if (found == jobs_.end()) return;
    const std::shared_ptr<Job> job = found->second;
    job->memory = Memory::kReleasing;
    lock.unlock();
    JobCounters counters = data_plane_->job_counters(job->id).value_or(JobCounters{});
    data_plane_->remove_job(job->id);
    counters.memory_bytes = 0;
    counters.staging_bytes = 0;
    lock.lock();
    job->final_counters = counters;
    job->plan = nullptr;
    job->memory = Memory::kReleased;
    job->memory_bytes = 0;
    job->staged_beyond_bytes = 0;
    forget_keys(*job);
    spdlog::info("event=job_released job={} id={}", log_value(label(*job)), job->id);
    forget_oldest();
    changed_.notify_all();
  }
}

void JobTable::wait_for_work(std::chrono::milliseconds interval) {
  Lock lock(mutex_);
  changed_.wait_for(lock, interval,
                    [this] { return has_memory(Memory::kToRelease) || !journal_ends_.empty(); });
}

std::size_t JobTable::drain(std::chrono::milliseconds timeout, bool snapshots) {
  const AnsweringLock lock(*this);
  is_draining_ = true;
  drain_snapshots_ = snapshots;
  if (timeout.count() > 0) drain_deadline_ = now() + timeout;
  for (const std::shared_ptr<Job>& job : all_live()) {
    if (!job->members.empty()) continue;
    job->ended_by_daemon = true;
    finish(*job, JobState::kEnded, "the server was drained");
  }
  spdlog::info("event=draining timeout_ms={} jobs={}", timeout.count(), live_by_name_.size());
  return live_by_name_.size();
}

void JobTable::fail_all(const std::string& reason) {
  const AnsweringLock lock(*this);
  for (const std::shared_ptr<Job>& job : all_live()) {
    job->ended_by_daemon = true;
    finish(*job, JobState::kFailed, reason);
  }
}

// A copy, because finish() drops finished jobs from the table.
std::vector<std::shared_ptr<Job>> JobTable::all_live() const {
  std::vector<std::shared_ptr<Job>> live;
  for (const auto& [name, id] : live_by_name_) live.push_back(jobs_.at(id));
  return live;
}

bool JobTable::is_draining() const {
  const Lock lock(mutex_);
  return is_draining_;
}

std::size_t JobTable::live_jobs() const {
  const Lock lock(mutex_);
  return live_by_name_.size();
}

bool JobTable::wait_until_idle(std::chrono::milliseconds timeout) {
  Lock lock(mutex_);
  return changed_.wait_for(lock, timeout, [this] {
    return live_by_name_.empty() && journal_ends_.empty() && !has_memory(Memory::kCreating) &&
           !has_memory(Memory::kToRelease) && !has_memory(Memory::kReleasing);
  });
}

bool JobTable::wait_until_told(std::chrono::milliseconds timeout) {
  Lock lock(mutex_);
  return changed_.wait_for(lock, timeout, [this] {
    for (const auto& [id, job] : jobs_) {
      if (!job->ended_by_daemon) continue;
      for (const auto& [worker, member] : job->members) {
        if (!member->was_told && !member->was_lost && !member->has_left) return false;
      }
    }
    return true;
  });
}

}  // namespace phub::server
