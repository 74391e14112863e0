// What a shard does for a job with a quorum: rounds/quorum_rounds.h.
#include <algorithm>

#include "server/chunks/shard.h"

namespace phub::server {

// Of a job with a quorum. What does not complete the round is folded at once. A round has the
// hyper-parameters of the leader's push that is in it, else those that it said before the round
// began: a push that is dropped changes none that is under way.
PushResult Shard::join_round(const Push& push, const Contribution& own, ShardChunk& chunk) {
  QuorumRounds& rounds = *members.rounds();
  const auto [counts, weight] =
      rounds.take(push.slot, push.worker, chunk.rounds, push.hyper->samples);
  const bool leads = push.worker == chunk.leader;
  const Hyper hyper = outer ? outer->of_rack(*push.hyper) : *push.hyper;
  rounds.hypers.push(push.slot, push.worker, hyper, leads);
  if (!counts) {
    if (own.staged) staging_.give(own.data);
    rounds.release(push.slot, chunk.rounds);
    return PushResult::kDropped;
  }
  if (leads || chunk.sum.pushes == 0) chunk.hyper = rounds.hypers.of(push.slot);
  if (rounds.policy().hogwild) {  // the worker has changed the parameters
    if (push.staged) staging_.give(push.data);
    chunk.sum.pushes = 1;
    updates.complete(push.slot);
    return PushResult::kCompleted;
  }
  const std::uint32_t elements = chunk.place.elements;
  chunk.sum.weight += weight;
  updates.sums.add_weighted(push.slot, own, weight, chunk.sum, elements);
  const auto standing = rounds.standing(push.slot, chunk.sum.pushes);
  if (standing == QuorumRounds::Standing::kComplete) return finish_quorum_round(push.slot);
  updates.sums.fold_all(push.slot, chunk.sum, elements);
  rounds.release(push.slot, chunk.rounds);
  if (standing == QuorumRounds::Standing::kInGrace && !rounds.graces.contains(push.slot)) {
    return PushResult::kQuorum;
  }
  const bool is_waited_for = rounds.policy().late == LatePushes::kDrop;
  return is_waited_for && chunk.sum.pushes == 1 ? PushResult::kOpened : PushResult::kTaken;
}

// A scale of 1 / workers is a mean, which is over those who came; another one is what it is.
PushResult Shard::finish_quorum_round(std::uint32_t slot) {
  const RoundPolicy& policy = members.rounds()->policy();
  ShardChunk& chunk = updates.chunks[slot];
  if (chunk.hyper.gradient_scale == mean_scale_) {
    const bool is_of_samples = policy.weight == PushWeight::kSamples;
    const float pushes = static_cast<float>(chunk.sum.pushes);
    chunk.hyper.gradient_scale = 1.0F / (is_of_samples ? chunk.sum.weight : pushes);
  }
  return updates.finish(slot);
}

std::pair<std::uint32_t, PushResult> Shard::end_round() {
  const std::uint32_t slot = members.rounds()->take_first_end();
  return {slot, finish_quorum_round(slot)};
}

// Nobody has parameters before the first round, which is everybody's.
bool Shard::lose(std::uint32_t worker) {
  QuorumRounds* const rounds = members.rounds();
  if (rounds == nullptr || stopped_) return false;
  const auto is_ready = [](const ShardChunk& chunk) { return chunk.initialised; };
  if (!std::all_of(updates.chunks.begin(), updates.chunks.end(), is_ready) || !rounds->lose(worker))
    return false;
  for (ShardChunk& chunk : updates.chunks) chunk.leader = rounds->lowest();
  return true;
}

bool Shard::go_on(std::uint32_t slot) {
  QuorumRounds& rounds = *members.rounds();
  const ShardChunk& chunk = updates.chunks[slot];
  rounds.release(slot, chunk.rounds);
  if (chunk.sum.pushes == 0 ||
      rounds.standing(slot, chunk.sum.pushes) != QuorumRounds::Standing::kComplete) {
    return false;
  }
  if (!rounds.due.contains(slot)) rounds.due.push(slot, 0);
  return true;
}

}  // namespace phub::server
