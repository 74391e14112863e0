#include "server/core/due_work.h"

#include <algorithm>
#include <utility>

namespace phub::server {
namespace {

// Null: no round of the job ends without a push.
const QuorumRounds* rounds_that_end(const JobOnCore& job) {
  const QuorumRounds* const rounds = job.shard.members.rounds();
  return rounds != nullptr && !job.shard.stopped() && rounds->has_ends() ? rounds : nullptr;
}

// Null: no rack of the job waits for others until some time.
const GraceQueue* waits_for_racks(const JobOnCore& job) {
  const auto& open = job.shard.open;
  const bool waits = open && !job.shard.stopped() && !open->rounds.waits.empty();
  return waits ? &open->rounds.waits : nullptr;
}

}  // namespace

std::uint64_t DueWork::in(std::uint32_t ms) const {
  return turns_.now() + turns_.rate().ticks_of(std::chrono::milliseconds(ms));
}

void DueWork::add(JobOnCore& job) {
  if (job.has_due_work) return;
  job.has_due_work = true;
  jobs_.push_back(&job);
}

void DueWork::await_quorum(JobOnCore& job, std::uint32_t slot) {
  QuorumRounds& rounds = *job.shard.members.rounds();
  rounds.waits.push(slot, in(rounds.policy().patience_ms));
  add(job);
}

void DueWork::begin_grace(JobOnCore& job, std::uint32_t slot) {
  QuorumRounds& rounds = *job.shard.members.rounds();
  rounds.waits.remove(slot);
  rounds.graces.push(slot, in(rounds.policy().grace_ms));
  add(job);
}

void DueWork::follow_exchange(JobOnCore& job, std::uint32_t slot) {
  send_outcome(job, slot);
  OuterRounds& rounds = job.shard.open->rounds;
  if (!rounds.awaits(slot)) return;
  rounds.waits.push(slot, in(rounds.wait_ms()));
  add(job);
}

void DueWork::send_outcome(JobOnCore& job, std::uint32_t slot) {
  const auto outcome = std::exchange(job.shard.open->rounds.outcome, {});
  if (outcome.goes_up) replies_.go_up(job, slot);
  if (outcome.is_together) replies_.complete_together(job, slot);
  if (outcome.is_complete) complete(job, slot);
}

bool DueWork::run() {
  bool any = false;
  for (JobOnCore* const job : jobs_) {
    any = send_held(*job) || any;
    any = update(*job) || any;
    any = end_rounds(*job) || any;
    any = end_waits(*job) || any;
  }
  std::erase_if(jobs_, [](JobOnCore* job) {
    job->has_due_work = job->shard.updates.awaits() || job->shard.has_held() ||
                        rounds_that_end(*job) != nullptr || waits_for_racks(*job) != nullptr;
    return !job->has_due_work;
  });
  return any;
}

// True: there were some.
bool DueWork::send_held(JobOnCore& job) {
  if (!job.shard.has_held()) return false;
  const std::uint64_t start = turns_.now();
  do {
    const auto [slot, result] = job.shard.take_held();
    on_ended(job, slot, result);
  } while (job.shard.has_held() && turns_.now() - start < turns_.turn_ticks);
  charge(job, turns_.now() - start);
  return true;
}

// True: some are left that could be made now.
bool DueWork::update(JobOnCore& job) {
  ChunkUpdates& updates = job.shard.updates;
  if (!updates.has_due()) return false;  // or other cores' sums are awaited
  if (turns_.are_taken() && job.is_awake() && turns_.shares.owed(job) == 0) return true;
  const std::uint64_t start = turns_.now();
  for (bool goes_on = true; goes_on;
       goes_on = updates.has_due() && turns_.now() - start < turns_.turn_ticks) {
    if (updates.prepare_due()) continue;
    const auto [slot, result] = updates.update_due();
    on_ended(job, slot, result);
  }
  charge(job, turns_.now() - start);
  return updates.has_due();
}

// True: time has ended some.
bool DueWork::end_rounds(JobOnCore& job) {
  const std::uint64_t start = turns_.now();
  std::uint64_t now = start;
  bool any = false;
  for (const QuorumRounds* rounds = rounds_that_end(job);
       rounds != nullptr && rounds->first_end() <= start && now - start < turns_.turn_ticks;
       rounds = rounds_that_end(job)) {
    const auto [slot, result] = job.shard.end_round();
    job.times.gathered(slot, start, turns_.rate());
    on_ended(job, slot, result);
    any = true;
    now = turns_.now();
  }
  if (any) charge(job, now - start);
  return any;
}

// True: time has ended some.
bool DueWork::end_waits(JobOnCore& job) {
  const std::uint64_t start = turns_.now();
  std::uint64_t now = start;
  for (const GraceQueue* waits = waits_for_racks(job);
       waits != nullptr && waits->deadline() <= start && now - start < turns_.turn_ticks;
       waits = waits_for_racks(job)) {
    send_outcome(job, job.shard.rack_rounds->end_wait());
    now = turns_.now();
  }
  if (now > start) charge(job, now - start);
  return now > start;
}

void DueWork::on_ended(JobOnCore& job, std::uint32_t slot, PushResult result) {
  if (result == PushResult::kExchanging) return follow_exchange(job, slot);
  if (result == PushResult::kGoesUp) replies_.go_up(job, slot);
  if (result == PushResult::kCompleted) complete(job, slot);
}

void DueWork::complete(JobOnCore& job, std::uint32_t slot) {
  job.times.completed(slot, turns_.now());
  replies_.complete(job, slot);
}

void DueWork::charge(JobOnCore& job, std::uint64_t spent) {
  if (turns_.shares.awake() > 0) turns_.shares.wake(job);  // others wait: it owes them this
  turns_.charge(job, spent);
}

std::chrono::milliseconds DueWork::rest(std::chrono::milliseconds longest) const {
  using std::chrono::milliseconds;
  const std::uint64_t now = turns_.now();
  milliseconds rest = longest;
  const auto end_by = [&](std::uint64_t end) {
    const std::uint64_t left = end > now ? end - now : 0;
    const std::uint64_t ms = turns_.rate().nanoseconds_of(left) / 1'000'000 + 1;
    rest = std::min(rest, milliseconds(ms));
  };
  for (const JobOnCore* const job : jobs_) {
    if (const QuorumRounds* const rounds = rounds_that_end(*job)) end_by(rounds->first_end());
    if (const GraceQueue* const waits = waits_for_racks(*job)) end_by(waits->deadline());
  }
  return rest;
}

}  // namespace phub::server
