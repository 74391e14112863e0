#include "server/core/due_updates.h"

namespace phub::server {

void DueUpdates::add(JobOnCore& job) {
  if (job.updates_due) return;
  job.updates_due = true;
  jobs_.push_back(&job);
}

bool DueUpdates::run() {
  for (JobOnCore* const job : jobs_) {
    if (!job->shard.updates.has_due()) continue;  // other cores' sums are awaited
    if (turns_.are_taken() && job->is_awake() && turns_.shares.owed(*job) == 0) continue;
    run(*job);
  }
  bool are_left = false;
  std::erase_if(jobs_, [&are_left](JobOnCore* job) {
    are_left = are_left || job->shard.updates.has_due();
    job->updates_due = job->shard.updates.awaits();
    return !job->updates_due;
  });
  return are_left;
}

void DueUpdates::run(JobOnCore& job) {
  const std::uint64_t start = turns_.now();
  for (bool goes_on = job.shard.updates.has_due(); goes_on;
       goes_on = job.shard.updates.has_due() && turns_.now() - start < turns_.turn_ticks) {
    if (job.shard.updates.prepare_due()) continue;
    const std::uint32_t slot = job.shard.updates.update_due();
    job.times.completed(slot, turns_.now());
    replies_.complete(job, slot);
  }
  if (turns_.shares.awake() > 0) turns_.shares.wake(job);  // others wait: it owes them this
  turns_.charge(job, turns_.now() - start);
}

}  // namespace phub::server
