#include "server/chunks/rounds/quorum_rounds.h"

#include <algorithm>

namespace phub::server {

QuorumRounds::QuorumRounds(const RoundPolicy& policy, std::uint32_t workers, std::size_t chunks,
                           WorkerSets& waiting)
    : graces(chunks),
      waits(chunks),
      due(chunks),
      policy_(policy),
      workers_(workers),
      waiting_(waiting),
      in_round_(chunks, workers),
      withheld_(chunks, workers),
      lost_(1, workers),
      present_(workers),
      bases_(chunks * workers),
      pushes_(chunks * workers),
      released_(workers),
      late_(workers) {}

QuorumRounds::Taken QuorumRounds::take(std::uint32_t slot, std::uint32_t worker,
                                       std::uint64_t rounds) {
  ++pushes_[at(slot, worker)];
  const std::uint32_t staleness = static_cast<std::uint32_t>(rounds) - bases_[at(slot, worker)];
  LateCounters& late = late_[worker];
  late.pushes[LateCounters::bucket(staleness)].add(1);
  if (staleness > 0 && policy_.late == LatePushes::kDrop) {
    late.dropped.add(1);
    return {.counts = false};
  }
  if (policy_.late == LatePushes::kDrop) in_round_.insert(slot, worker);
  const bool is_weighed = policy_.weight == PushWeight::kStaleness;
  return {.weight = is_weighed ? 1.0F / (1.0F + static_cast<float>(staleness)) : 1.0F};
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
  for (std::uint32_t worker = 0; worker < workers_; ++worker) {
    bases_[at(slot, worker)] = static_cast<std::uint32_t>(rounds);
    released_[worker] = worker;
  }
  released_count_ = workers_;
  waiting_.clear(slot);
}

void QuorumRounds::release(std::uint32_t slot, std::uint64_t rounds) {
  released_count_ = 0;
  const bool is_bounded = policy_.staleness != kAnyStaleness;
  const std::uint32_t fewest = is_bounded ? fewest_pushes(slot) : 0;
  for (std::uint32_t worker = 0; worker < workers_; ++worker) {
    if (!waiting_.contains(slot, worker) || in_round_.contains(slot, worker)) continue;
    // Of two counts that may have wrapped.
    if (is_bounded && pushes_[at(slot, worker)] - fewest > policy_.staleness) {
      if (withheld_.insert(slot, worker)) late_[worker].withheld.add(1);
      continue;
    }
    waiting_.erase(slot, worker);
    withheld_.erase(slot, worker);
    bases_[at(slot, worker)] = static_cast<std::uint32_t>(rounds);
    released_[released_count_++] = worker;
  }
}

bool QuorumRounds::lose(std::uint32_t worker) {
  if (lost_.insert(0, worker)) --present_;
  for (std::uint32_t slot = 0; slot < bases_.size() / workers_; ++slot) {
    waiting_.erase(slot, worker);
    in_round_.erase(slot, worker);
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
    steps = std::min(steps, fewest_pushes(slot));
  }
  return bases_.empty() ? 0 : steps;
}

// Of a worker that is there.
std::uint32_t QuorumRounds::fewest_pushes(std::uint32_t slot) const {
  std::uint32_t fewest = 0;
  bool is_first = true;
  for (std::uint32_t worker = 0; worker < workers_; ++worker) {
    if (lost_.contains(0, worker)) continue;
    const std::uint32_t pushes = pushes_[at(slot, worker)];
    // Counts wrap: one is less if it is behind by less than half of them.
    if (is_first || static_cast<std::int32_t>(pushes - fewest) < 0) fewest = pushes;
    is_first = false;
  }
  return fewest;
}

}  // namespace phub::server
