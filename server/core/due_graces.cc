#include "server/core/due_graces.h"

#include <algorithm>

namespace phub::server {

std::uint64_t DueGraces::in(std::uint32_t ms) const {
  return turns_.now() + turns_.rate().ticks_of(std::chrono::milliseconds(ms));
}

void DueGraces::await_quorum(JobOnCore& job, std::uint32_t slot) {
  QuorumRounds& rounds = *job.shard.members.rounds();
  rounds.waits.push(slot, in(rounds.policy().patience_ms));
  add(job);
}

void DueGraces::begin_grace(JobOnCore& job, std::uint32_t slot) {
  QuorumRounds& rounds = *job.shard.members.rounds();
  rounds.waits.remove(slot);
  rounds.graces.push(slot, in(rounds.policy().grace_ms));
  add(job);
}

void DueGraces::add(JobOnCore& job) {
  if (job.in_grace) return;
  job.in_grace = true;
  jobs_.push_back(&job);
}

bool DueGraces::run() {
  bool any = false;
  for (JobOnCore* const job : jobs_) any = run(*job) || any;
  std::erase_if(jobs_, [](JobOnCore* job) {
    job->in_grace = !job->shard.stopped() && job->shard.members.rounds()->has_ends();
    return !job->in_grace;
  });
  return any;
}

bool DueGraces::run(JobOnCore& job) {
  const QuorumRounds& rounds = *job.shard.members.rounds();
  const std::uint64_t start = turns_.now();
  std::uint64_t now = start;
  bool any = false;
  while (!job.shard.stopped() && rounds.has_ends() && rounds.first_end() <= start &&
         now - start < turns_.turn_ticks) {
    const std::uint32_t slot = job.shard.end_round();
    any = true;
    now = turns_.now();
    job.times.gathered(slot, start, turns_.rate());
    job.times.completed(slot, now);
    replies_.complete(job, slot);
  }
  if (!any) return false;
  if (turns_.shares.awake() > 0) turns_.shares.wake(job);  // others wait: it owes them this
  turns_.charge(job, now - start);
  return true;
}

std::chrono::milliseconds DueGraces::rest(std::chrono::milliseconds longest) const {
  using std::chrono::milliseconds;
  const std::uint64_t now = turns_.now();
  milliseconds rest = longest;
  for (const JobOnCore* const job : jobs_) {
    const QuorumRounds& rounds = *job->shard.members.rounds();
    if (!rounds.has_ends()) continue;
    const std::uint64_t left = rounds.first_end() > now ? rounds.first_end() - now : 0;
    const std::uint64_t ms = turns_.rate().nanoseconds_of(left) / 1'000'000 + 1;
    rest = std::min(rest, milliseconds(ms));
  }
  return rest;
}

}  // namespace phub::server
