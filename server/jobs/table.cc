#include "server/jobs/table.h"

#include <fmt/format.h>
#include <openssl/rand.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "common/rendezvous/end_reasons.h"

namespace phub::server {
namespace {

std::string text_of(const SampleLedger& ledger) {
  return fmt::format(
      "{} samples a step, at position {} after round {}, of a set of {} with seed {}",
      ledger.per_round, ledger.used, ledger.round, ledger.samples, ledger.seed);
}

// Whether the second line goes on where the first one is. Its steps may have another size: workers
// may have batches of their own.
bool goes_on(const SampleLedger& known, const SampleLedger& next) {
  return next.samples == known.samples && next.seed == known.seed && known.knows(next.round) &&
         next.used == known.used_after(next.round);
}

}  // namespace

void JobTable::reap() {
  fail_the_late();
  drop_the_lost();
  name_culprits();
  usage.count_staged();
  JobIndex::Lock lock(index_);
  saved_.tell_ends(lock);
  saved_.stock_ids(lock);
  placement.release_ended(lock);
}

void JobTable::fail_the_late() {
  JobIndex::Lock lock(index_);
  const TimePoint time = index_.now();
  announce_drain();
  if (drain_deadline_ && time >= *drain_deadline_) return end_drained(lock);
  for (const std::shared_ptr<Job>& job : index_.all_live()) {
    if (!is_live(*job)) continue;  // it failed with another
    if (job->members.empty() && job->unjoined_until && time >= *job->unjoined_until) {
      life.finish(*job, JobState::kEnded, "its workers had it restored, and none has joined it");
      continue;
    }
    for (const auto& [worker, member] : job->members) {
      if (member->has_left || member->was_lost || member->calls > 0) continue;
      if (time - member->last_seen <= index_.options.heartbeat_deadline) continue;
      members.lose(
          *job, *member,
          fmt::format("no heartbeat for {} ms", index_.options.heartbeat_deadline.count()));
      break;
    }
  }
}

void JobTable::announce_drain() {
  if (!drain_notice_ || index_.now() < *drain_notice_) return;
  drain_notice_.reset();
  for (const std::shared_ptr<Job>& job : index_.all_live()) {
    JobLife::announce_end(*job, std::string(client::kServerStops));
  }
}

// A job goes with its added keys: all their snapshots come before the first of their ends, for
// workers who hear of that leave, and what they leave fails.
void JobTable::end_drained(JobIndex::Lock& lock) {
  const std::vector<std::shared_ptr<Job>> live = index_.all_live();
  std::map<std::uint64_t, std::vector<std::shared_ptr<Job>>> together;  // by the base's id
  for (const auto& job : live) {
    if (job->base_job_id != 0) together[job->base_job_id].push_back(job);
  }
  // Added keys first: they are told of the drain, not of the job that they would fail with.
  for (const auto& job : live) {
    if (job->base_job_id == 0) together[job->id].push_back(job);
  }
  for (const auto& [base, jobs] : together) end_together(lock, jobs);
}

void JobTable::end_together(JobIndex::Lock& lock, const std::vector<std::shared_ptr<Job>>& jobs) {
  for (const std::shared_ptr<Job>& job : jobs) {
    if (!drain_snapshots_ || !index_.options.before_drain_ends) break;
    if (!is_live(*job) || job->state != JobState::kRunning) continue;
    const JobView view = view_of(*job, index_.now());
    lock.unlock();
    index_.options.before_drain_ends(view);
    lock.lock();
  }
  for (const std::shared_ptr<Job>& job : jobs) {
    if (!is_live(*job)) continue;
    job->ended_by_daemon = true;
    life.finish(*job, JobState::kFailed,
                "the server was drained and did not wait any longer for it");
  }
}

// Who was lost on one core, or to all but its connections, is to be no part of a job that goes on.
void JobTable::drop_the_lost() {
  struct Lost {
    std::uint64_t job_id;
    std::uint32_t worker;
  };
  std::vector<Lost> all;
  {
    const JobIndex::Lock lock(index_);
    for (const std::shared_ptr<Job>& job : index_.all_live()) {
      for (const auto& [worker, member] : job->members) {
        if (!member->was_lost || std::exchange(member->is_dropped, true)) continue;
        all.push_back({job->id, worker});
      }
    }
  }
  for (const Lost& lost : all) index_.data_plane()->drop_worker(lost.job_id, lost.worker);
}

void JobTable::wait_for_work(std::chrono::milliseconds interval) {
  JobIndex::Lock lock(index_);
  index_.changed.wait_for(lock, interval, [this] {
    return index_.has_memory(Memory::kToRelease) || saved_.has_ends();
  });
}

std::size_t JobTable::drain(std::chrono::milliseconds timeout, bool snapshots) {
  const JobIndex::Lock lock(index_);
  index_.refuse_more();
  drain_snapshots_ = snapshots;
  if (timeout.count() > 0) {
    drain_deadline_ = index_.now() + timeout;
    drain_notice_ = *drain_deadline_ - std::min(timeout, index_.options.end_notice);
  }
  for (const std::shared_ptr<Job>& job : index_.all_live()) {
    if (!job->members.empty()) continue;
    job->ended_by_daemon = true;
    life.finish(*job, JobState::kEnded, "the server was drained");
  }
  announce_drain();
  spdlog::info("event=draining timeout_ms={} jobs={}", timeout.count(), index_.live_jobs());
  return index_.live_jobs();
}

void JobTable::fail_all(const std::string& reason) {
  const JobIndex::Lock lock(index_);
  for (const std::shared_ptr<Job>& job : index_.all_live()) {
    if (!is_live(*job)) continue;  // it failed with another
    job->ended_by_daemon = true;
    life.finish(*job, JobState::kFailed, reason);
  }
}

bool JobTable::wait_until_idle(std::chrono::milliseconds timeout) {
  JobIndex::Lock lock(index_);
  return index_.changed.wait_for(lock, timeout, [this] {
    return index_.live_jobs() == 0 && !saved_.has_ends() && !index_.has_memory(Memory::kCreating) &&
           !index_.has_memory(Memory::kToRelease) && !index_.has_memory(Memory::kReleasing);
  });
}

bool JobTable::wait_until_told(std::chrono::milliseconds timeout) {
  JobIndex::Lock lock(index_);
  return index_.changed.wait_for(lock, timeout, [this] {
    for (const auto& [id, job] : index_.all()) {
      if (!job->ended_by_daemon) continue;
      for (const auto& [worker, member] : job->members) {
        if (!member->was_told && !member->was_lost && !member->has_left) return false;
      }
    }
    return true;
  });
}

Status JobTable::note_samples(const Identity& identity, const SampleLedger& ledger) {
  const JobIndex::Lock lock(index_);
  PHUB_ASSIGN_OR_RETURN(const JobIndex::Caller caller, index_.authenticate(identity));
  const Member& member = *caller.member;
  Job& job = *caller.job;
  if (!is_live(job)) return job_is_over(job);
  if (!member.rack.empty()) return {Code::kPermissionDenied, "samples: a worker says these"};
  if (!member.is_ready || member.has_left || member.was_lost) {
    return {Code::kAborted, describe(member) + " is not in the job"};
  }
  PHUB_RETURN_IF_ERROR(check(ledger));
  SampleLedger& known = job.samples;
  if (known.is_known() && ledger != known && !goes_on(known, ledger)) {
    return {Code::kInvalidArgument,
            fmt::format("samples: {} would use {}, and another worker of the job {}; give all "
                        "workers the same data, train.seed, train.batch, train.accumulate and "
                        "train.resume",
                        describe(member), text_of(ledger), text_of(known))};
  }
  known = ledger;
  return {};
}

Status JobTable::note_peer(const Identity& identity, const std::string& host, std::uint16_t port) {
  const JobIndex::Lock lock(index_);
  PHUB_ASSIGN_OR_RETURN(const JobIndex::Caller caller, index_.authenticate(identity));
  Member& member = *caller.member;
  Job& job = *caller.job;
  if (!is_live(job)) return job_is_over(job);
  if (!member.rack.empty()) return {Code::kPermissionDenied, "peer_port: a worker says this"};
  if (member.has_left || member.was_lost) {
    return {Code::kAborted, describe(member) + " is not in the job"};
  }
  if (!job.peer_key) {
    Secret key{};
    if (RAND_bytes(key.data(), static_cast<int>(key.size())) != 1) {
      return {Code::kInternal, "the system gives no random bytes for a key of the workers"};
    }
    job.peer_key = key;
  }
  member.peer_host = host;
  member.peer_port = port;
  return {};
}

}  // namespace phub::server
