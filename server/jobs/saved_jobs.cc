#include "server/jobs/saved_jobs.h"

#include <spdlog/spdlog.h>

#include <utility>

#include "common/base/log_value.h"
#include "common/job/text.h"

namespace phub::server {
namespace {

constexpr std::uint64_t kIdsAtOnce = 64;

}  // namespace

// The reaper keeps ids in stock; only when it is behind the store is written under the mutex.
Result<std::uint64_t> SavedJobs::take_id() {
  if (next_id_ == ids_end_) {
    if (store_.is_there()) {
      PHUB_ASSIGN_OR_RETURN(next_id_, store_.reserve_ids(kIdsAtOnce));
    }
    ids_end_ = next_id_ + kIdsAtOnce;
  }
  return next_id_++;
}

// Ids that do not follow those in stock are left out: somebody was faster.
void SavedJobs::stock_ids(JobIndex::Lock& lock) {
  if (!store_.is_there() || ids_end_ - next_id_ > kIdsAtOnce / 2) return;
  lock.unlock();
  const Result<std::uint64_t> first = store_.reserve_ids(kIdsAtOnce);
  lock.lock();
  if (first && *first == ids_end_) ids_end_ += kIdsAtOnce;
}

Status SavedJobs::save(JobIndex::Lock& lock, Job& job) {
  if (!store_.is_there()) return {};
  job.saved = Saved::kWriting;
  StoredJob stored{.id = job.id,
                   .epoch = job.epoch,
                   .tenant_id = job.tenant.id,
                   .tenant = job.tenant.name,
                   .spec = {},
                   .nonce_hash = job.nonce_hash,
                   .snapshot = job.start.file};
  const std::shared_ptr<const JobSpec> spec = job.spec;
  lock.unlock();
  stored.spec = bytes_of(*spec);
  const Status written = store_.add(stored);
  lock.lock();
  job.saved = written.ok() ? Saved::kYes : Saved::kNo;
  index_.changed.notify_all();
  if (!is_live(job)) note_end(job);
  return written;
}

Status SavedJobs::forget(JobIndex::Lock& lock, Job& job) {
  lock.unlock();
  const Status forgotten = store_.remove(job.id);
  lock.lock();
  if (forgotten.ok()) job.saved = Saved::kNo;
  return forgotten;
}

// What the daemon ends because it stops comes back with the next one.
void SavedJobs::note_end(const Job& job) {
  if (job.saved == Saved::kYes && !job.ended_by_daemon) ends_.push_back(job.id);
}

void SavedJobs::tell_ends(JobIndex::Lock& lock) {
  std::vector<std::uint64_t> late;
  std::vector<std::uint64_t> ended = std::exchange(late_, {});
  std::size_t logged = ended.size();  // the first so many, when they failed before
  while (!ended.empty() || !ends_.empty()) {
    ended.insert(ended.end(), ends_.begin(), ends_.end());
    ends_.clear();
    lock.unlock();
    for (std::size_t i = 0; i < ended.size(); ++i) {
      const std::uint64_t id = ended[i];
      const Status told = store_.remove(id);
      if (told.ok()) continue;
      late.push_back(id);
      if (i < logged) continue;
      spdlog::error("event=job_not_forgotten id={} reason={}", id, log_value(told.message()));
    }
    ended.clear();
    logged = 0;
    lock.lock();
    index_.changed.notify_all();
  }
  late_ = std::move(late);
}

}  // namespace phub::server
