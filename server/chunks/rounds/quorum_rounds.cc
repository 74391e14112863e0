#include "server/chunks/rounds/quorum_rounds.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace phub::server {

QuorumRounds::QuorumRounds(const RoundPolicy& policy, std::uint32_t workers, std::size_t chunks,
                           const Hyper& hyper, WorkerSets& waiting)
    : graces(chunks),
      waits(chunks),
      due(chunks),
      hypers(workers, chunks, hyper),
      policy_(policy),
      workers_(workers),
      withholds_(policy.turns || policy.staleness != kAnyStaleness),
      waiting_(waiting),
      in_round_(chunks, workers),
      withheld_(chunks, workers),
      lost_(1, workers),
      present_(workers),
      bases_(chunks * workers),
      pushes_(chunks * workers),
      slowest_(policy.staleness != kAnyStaleness ? chunks : 0,
               Slowest{.pushes = 0, .workers = workers}),
      turns_(policy.turns ? chunks : 0),
      released_(workers),
      late_(workers) {}

QuorumRounds::Taken QuorumRounds::take(std::uint32_t slot, std::uint32_t worker,
                                       std::uint64_t rounds, float samples) {
  const std::uint32_t pushes = pushes_[at(slot, worker)]++;
  if (withholds_) policy_.turns ? end_turn(slot, worker) : leave_slowest(slot, pushes);
  const std::uint32_t staleness = static_cast<std::uint32_t>(rounds) - bases_[at(slot, worker)];
  LateCounters& late = late_[worker];
  late.pushes[LateCounters::bucket(staleness)].add(1);
  if (staleness > 0 && policy_.late == LatePushes::kDrop) {
    late.dropped.add(1);
    return {.counts = false};
  }
  if (policy_.late == LatePushes::kDrop) in_round_.insert(slot, worker);
  return {.weight = weight_of(staleness, samples)};
}

float QuorumRounds::weight_of(std::uint32_t staleness, float samples) const {
  switch (policy_.weight) {
    case PushWeight::kOne:
      return 1.0F;
    case PushWeight::kStaleness:
      return 1.0F / (1.0F + static_cast<float>(staleness));
    case PushWeight::kSamples:
      return samples > 0.0F ? samples : 1.0F;
  }
  return 1.0F;
}

QuorumRounds::Standing QuorumRounds::standing(std::uint32_t slot, std::uint32_t pushes) const {
  if (pushes < std::min(policy_.quorum, present_)) return Standing::kOpen;
  const bool may_more_come = policy_.grace_ms > 0 && in_round_.size(slot) < present_;
  return may_more_come ? Standing::kInGrace : Standing::kComplete;
}

void QuorumRounds::complete(std::uint32_t slot, std::uint32_t pushes) {
  counters.rounds.add(1);
  if (pushes < workers_) counters.incomplete.add(1);
  graces.remove(slot);
  waits.remove(slot);
  due.remove(slot);
  in_round_.clear(slot);
}

std::uint64_t QuorumRounds::first_end() const {
  if (!due.empty()) return 0;
  if (graces.empty()) return waits.deadline();
  return waits.empty() ? graces.deadline() : std::min(graces.deadline(), waits.deadline());
}

std::uint32_t QuorumRounds::take_first_end() {
  if (!due.empty()) return due.front();
  const bool is_grace = !graces.empty() && graces.deadline() == first_end();
  (is_grace ? counters.graces : counters.impatient).add(1);
  return is_grace ? graces.front() : waits.front();
}

void QuorumRounds::start_all(std::uint32_t slot, std::uint64_t rounds) {
  if (policy_.turns) return release(slot, rounds);
  for (std::uint32_t worker = 0; worker < workers_; ++worker) {
    bases_[at(slot, worker)] = static_cast<std::uint32_t>(rounds);
    released_[worker] = worker;
  }
  released_count_ = workers_;
  waiting_.clear(slot);
}

// Of those who wait, who may go: who is in a round that goes on is passed over, and so is who was
// too far ahead, until the slowest has moved. So a push is not paid for with a look at each worker
// that waits.
void QuorumRounds::release(std::uint32_t slot, std::uint64_t rounds) {
  released_count_ = 0;
  bool has_moved = false;
  if (withholds_) {
    if (policy_.turns) {  // who has it may be computing
      if (waiting_.contains(slot, turns_[slot])) reply_to(slot, turns_[slot], rounds);
      return;
    }
    has_moved = std::exchange(slowest_[slot].has_moved, false);
  }
  for (std::size_t i = 0; i < waiting_.words(); ++i) {
    std::uint64_t workers = waiting_.word(slot, i) & ~in_round_.word(slot, i);
    if (!has_moved) workers &= ~withheld_.word(slot, i);
    for (; workers != 0; workers &= workers - 1) {
      const auto bit = static_cast<std::size_t>(std::countr_zero(workers));
      release_or_withhold(slot, static_cast<std::uint32_t>(64 * i + bit), rounds);
    }
  }
}

void QuorumRounds::release_or_withhold(std::uint32_t slot, std::uint32_t worker,
                                       std::uint64_t rounds) {
  ++looked_at_;
  // Of two counts that may have wrapped.
  if (withholds_ && pushes_[at(slot, worker)] - slowest_[slot].pushes > policy_.staleness) {
    if (withheld_.insert(slot, worker)) late_[worker].withheld.add(1);
    return;
  }
  withheld_.erase(slot, worker);
  reply_to(slot, worker, rounds);
}

void QuorumRounds::reply_to(std::uint32_t slot, std::uint32_t worker, std::uint64_t rounds) {
  waiting_.erase(slot, worker);
  bases_[at(slot, worker)] = static_cast<std::uint32_t>(rounds);
  released_[released_count_++] = worker;
}

// A worker has pushed the chunk, or is gone. REQUIRES: somebody is there.
void QuorumRounds::end_turn(std::uint32_t slot, std::uint32_t worker) {
  std::uint32_t& turn = turns_[slot];
  if (turn != worker) return;
  do {
    turn = turn + 1 < workers_ ? turn + 1 : 0;
  } while (lost_.contains(0, turn));
}

bool QuorumRounds::lose(std::uint32_t worker) {
  if (!lost_.insert(0, worker)) return present_ > 0;
  --present_;
  for (std::uint32_t slot = 0; slot < bases_.size() / workers_; ++slot) {
    waiting_.erase(slot, worker);
    in_round_.erase(slot, worker);
    withheld_.erase(slot, worker);
    if (!withholds_ || present_ == 0) continue;
    policy_.turns ? end_turn(slot, worker) : leave_slowest(slot, pushes_[at(slot, worker)]);
  }
  return present_ > 0;
}

std::uint32_t QuorumRounds::lowest() const {
  std::uint32_t worker = 0;
  while (lost_.contains(0, worker)) ++worker;
  return worker;
}

std::uint32_t QuorumRounds::steps() const {
  std::uint32_t steps = UINT32_MAX;
  for (std::uint32_t slot = 0; slot < bases_.size() / workers_; ++slot) {
    steps = std::min(steps, find_slowest(slot).pushes);
  }
  return bases_.empty() ? 0 : steps;
}

// A worker that had so many pushes of the chunk has more, or is gone. The last one of the slowest
// makes others the slowest: they are found once for as many pushes as there are workers.
void QuorumRounds::leave_slowest(std::uint32_t slot, std::uint32_t pushes) {
  Slowest& slowest = slowest_[slot];
  if (pushes == slowest.pushes && --slowest.workers == 0) slowest = find_slowest(slot);
}

// Of those who are there.
QuorumRounds::Slowest QuorumRounds::find_slowest(std::uint32_t slot) const {
  Slowest slowest{.pushes = 0, .workers = 0, .has_moved = true};
  for (std::uint32_t worker = 0; worker < workers_; ++worker) {
    if (lost_.contains(0, worker)) continue;
    const std::uint32_t pushes = pushes_[at(slot, worker)];
    // Counts wrap: one is less if it is behind by less than half of them.
    if (slowest.workers == 0 || static_cast<std::int32_t>(pushes - slowest.pushes) < 0) {
      slowest.pushes = pushes;
      slowest.workers = 0;
    }
    if (pushes == slowest.pushes) ++slowest.workers;
  }
  return slowest;
}

}  // namespace phub::server
