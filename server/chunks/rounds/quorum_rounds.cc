#include "server/chunks/rounds/quorum_rounds.h"

#include <algorithm>
#include <bit>

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
      progress_(workers, chunks, policy.staleness != kAnyStaleness),
      bases_(chunks * workers),
      turns_(policy.turns ? chunks : 0),
      released_(workers),
      late_(workers) {}

QuorumRounds::Taken QuorumRounds::take(std::uint32_t slot, std::uint32_t worker,
                                       std::uint64_t rounds, float samples) {
  const std::uint32_t pushes = progress_.count(slot, worker);
  if (withholds_) policy_.turns ? end_turn(slot, worker) : progress_.leave_slowest(slot, pushes);
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
  if (pushes < std::min(policy_.quorum, progress_.present())) return Standing::kOpen;
  const bool may_more_come = policy_.grace_ms > 0 && in_round_.size(slot) < progress_.present();
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

// Skips workers in a round that goes on, and those that were too far ahead until the slowest moves.
// So a push does not look at every waiting worker.
void QuorumRounds::release(std::uint32_t slot, std::uint64_t rounds) {
  released_count_ = 0;
  bool has_moved = false;
  if (withholds_) {
    if (policy_.turns) {  // the worker whose turn it is may still be computing
      if (waiting_.contains(slot, turns_[slot])) reply_to(slot, turns_[slot], rounds);
      return;
    }
    has_moved = progress_.take_move(slot);
  }
  for (std::size_t i = 0; i < in_round_.words(); ++i) {  // racks wait for no round
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
  if (withholds_ && progress_.lead(slot, worker) > policy_.staleness) {
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

// Passes the turn on, if it is that of this worker, which has pushed the chunk or has left.
// REQUIRES: a worker is present.
void QuorumRounds::end_turn(std::uint32_t slot, std::uint32_t worker) {
  std::uint32_t& turn = turns_[slot];
  if (turn != worker) return;
  do {
    turn = turn + 1 < workers_ ? turn + 1 : 0;
  } while (progress_.has_left(turn));
}

bool QuorumRounds::lose(std::uint32_t worker) {
  const bool is_new = progress_.lose(worker);
  const bool is_any_left = progress_.present() > 0;
  if (!is_new) return is_any_left;
  for (std::uint32_t slot = 0; slot < progress_.chunks(); ++slot) {
    waiting_.erase(slot, worker);
    in_round_.erase(slot, worker);
    withheld_.erase(slot, worker);
    if (!withholds_ || !is_any_left) continue;
    policy_.turns ? end_turn(slot, worker)
                  : progress_.leave_slowest(slot, progress_.pushes(slot, worker));
  }
  return is_any_left;
}

}  // namespace phub::server
