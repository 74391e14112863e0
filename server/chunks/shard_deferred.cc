// A Shard whose updates do not come with the last push: sums are held until their key is whole
// (lars), until the workers have voted, or just to see whether they are finite (static loss scale).
#include <algorithm>
#include <array>
#include <cmath>

#include "common/base/check.h"
#include "server/chunks/shard.h"

namespace phub::server {

using kernels::Source;

void Shard::create_deferred(const JobLayout& shape, std::uint32_t core) {
  deferred_ = std::make_unique<DeferredUpdates>();
  DeferredUpdates& deferred = *deferred_;
  deferred.scale = shape.loss_scale;
  deferred.voters = WorkerSets(1, shape.workers);
  deferred.has_norms = shape.rule == RuleKind::kLars;
  deferred.lars = shape.lars;
  deferred.finite.assign(chunks_.size(), true);
  const Plan& plan = *shape.plan;
  const std::vector<std::uint32_t>& ids = plan.core_chunks[shape.server_index][core];
  std::uint32_t run = 0;
  for (std::uint32_t slot = 0; slot < ids.size(); ++slot) {
    const Chunk& chunk = plan.chunks[ids[slot]];
    const Segment& first = plan.segments[chunk.first_segment];
    const bool goes_on = deferred.has_norms && first.key_offset > 0;
    PHUB_CHECK(!goes_on || (slot > 0 && ids[slot - 1] + 1 == ids[slot]), "the plan has whole keys");
    if (!goes_on) {
      deferred.groups.push_back(
          {.first_slot = slot, .first_key = static_cast<std::uint32_t>(deferred.keys.size())});
    }
    DeferredUpdates::Group& group = deferred.groups.back();
    ++group.slots;
    deferred.group_of.push_back(static_cast<std::uint32_t>(deferred.groups.size() - 1));
    if (!deferred.has_norms) continue;
    for (std::uint32_t i = 0; i < chunk.segment_count; ++i, ++run) {
      const std::uint32_t key = plan.segments[chunk.first_segment + i].key;
      if (!goes_on) {
        deferred.keys.push_back(
            {.first_run = run, .plain = !shape.plain.empty() && shape.plain[key]});
        ++group.keys;
      }
      ++deferred.keys.back().runs;
      deferred.key_of_run.push_back(static_cast<std::uint32_t>(deferred.keys.size() - 1));
    }
  }
  deferred.squares.resize(deferred.has_norms ? runs_.size() : 0);
  deferred.due.reserve(deferred.groups.size());
  deferred.released.reserve(DeferredUpdates::kReleasedMax);
  // The round of initial parameters, which nobody votes on, comes before the first.
  deferred.votes.round = (chunks_.empty() ? 0 : chunks_.front().rounds) + 1;
  deferred.votes.chunks_left = chunks();
}

// The last push of a round has arrived.
PushResult Shard::defer(std::uint32_t slot) {
  DeferredUpdates& deferred = *deferred_;
  ChunkState& chunk = chunks_[slot];
  sum_up(chunk, contributions_of(slot));
  ++deferred.sums;
  const auto* sum = reinterpret_cast<const float*>(chunk.sum);
  if (deferred.has_norms) {
    for (std::uint32_t run = chunk.first_run; run < chunk.first_run + chunk.run_count; ++run) {
      deferred.squares[run].gradients =
          kernels::sum_of_squares(sum + runs_[run].offset, runs_[run].elements);
    }
  } else {
    deferred.finite[slot] = kernels::all_finite({chunk.sum, DataType::kFloat32}, chunk.elements);
  }
  DeferredUpdates::Group& group = deferred.groups[deferred.group_of[slot]];
  ++group.summed;
  if (!is_due(group)) return PushResult::kDeferred;
  if (group.slots > 1) {
    deferred.due.push(deferred.group_of[slot]);
    return PushResult::kReleasable;
  }
  prepare(group);
  update_held(slot);
  return PushResult::kCompleted;
}

// Leaves one fp32 sum, in a buffer that is there already where one is.
void Shard::sum_up(ChunkState& chunk, Contribution* contributions) {
  std::array<Source, kernels::kMaxSources> sources;  // NOLINT(*-member-init): filled below
  const std::size_t count = sources_of(chunk, contributions, 0, sources);
  std::byte* out = nullptr;
  if (chunk.sum != nullptr && chunk.sum_type == DataType::kFloat32) {
    out = chunk.sum;
  } else if (chunk.sum == nullptr && contributions[0].staged && wire_type_ == DataType::kFloat32) {
    out = contributions[0].data;
    contributions[0].staged = false;  // stays in use, as the sum
  } else {
    out = take_buffer();
  }
  if (count > 1 || out != sources[0].data) {
    kernels::update({.sources = {sources.data(), count},
                     .elements = chunk.elements,
                     .parameters = reinterpret_cast<float*>(out)});
  }
  if (chunk.sum != nullptr && chunk.sum != out) give_buffer(chunk.sum);
  chunk.sum = out;
  chunk.sum_type = DataType::kFloat32;
  give_contributions(contributions);
}

bool Shard::is_due(const DeferredUpdates::Group& group) const {
  if (group.summed < group.slots) return false;
  if (deferred_->scale.kind != LossScaling::kVoted) return true;
  return deferred_->votes.decided && chunks_[group.first_slot].rounds == deferred_->votes.round;
}

VoteOutcome Shard::vote(std::uint32_t worker, const Vote& vote) {
  if (stopped_) return VoteOutcome::kStopped;
  if (!votes() || chunks_.empty()) return VoteOutcome::kUnasked;
  const bool is_scale = std::isfinite(vote.loss_scale) && vote.loss_scale > 0.0F;
  if (!is_scale || vote.overflow > 1) return VoteOutcome::kMalformed;
  DeferredUpdates::Votes& votes = deferred_->votes;
  if (deferred_->voters.contains(0, worker)) return VoteOutcome::kDuplicate;
  if (votes.voters != 0 && vote.loss_scale != votes.loss_scale) return VoteOutcome::kOtherScale;
  votes.loss_scale = vote.loss_scale;
  deferred_->voters.insert(0, worker);
  ++votes.voters;
  votes.overflow = votes.overflow || vote.overflow != 0;
  if (votes.voters < workers_) return VoteOutcome::kAccepted;
  votes.decided = true;
  for (std::uint32_t index = 0; index < deferred_->groups.size(); ++index) {
    if (is_due(deferred_->groups[index])) deferred_->due.push(index);
  }
  return deferred_->due.empty() ? VoteOutcome::kAccepted : VoteOutcome::kReleasable;
}

std::span<const std::uint32_t> Shard::release(std::uint32_t count) {
  DeferredUpdates& deferred = *deferred_;
  deferred.released.clear();
  count = std::min(count, DeferredUpdates::kReleasedMax);
  while (!stopped_ && !deferred.due.empty() && deferred.released.size() < count) {
    DeferredUpdates::Group& group = deferred.groups[deferred.due.front()];
    if (deferred.updated == 0) prepare(group);
    const std::uint32_t slot = group.first_slot + deferred.updated;
    update_held(slot);
    deferred.released.push_back(slot);
    if (++deferred.updated < group.slots) continue;
    deferred.updated = 0;
    deferred.due.pop();
  }
  return deferred.released;
}

// The trust of the group's keys, from sums over their chunks in order. From now on what is summed
// is the next round's: a chunk that is updated and replied to may be pushed again before its
// neighbours are.
void Shard::prepare(DeferredUpdates::Group& group) {
  DeferredUpdates& deferred = *deferred_;
  group.summed = 0;
  const Hyper hyper = unscaled_hyper(chunks_[group.first_slot]);
  for (std::uint32_t k = group.first_key; k < group.first_key + group.keys; ++k) {
    DeferredUpdates::Key& key = deferred.keys[k];
    kernels::KeySquares squares;
    for (std::uint32_t run = key.first_run; run < key.first_run + key.runs; ++run) {
      squares.parameters += deferred.squares[run].parameters;
      squares.gradients += deferred.squares[run].gradients;
    }
    key.trust = kernels::trust_of(deferred.lars, squares, hyper.gradient_scale,
                                  runs_[key.first_run].weight_decay);
    if (key.plain && std::isfinite(key.trust)) key.trust = 1.0F;
  }
}

Hyper Shard::unscaled_hyper(const ChunkState& chunk) const {
  Hyper hyper = chunk.hyper;
  const bool voted = deferred_->scale.kind == LossScaling::kVoted;
  hyper.gradient_scale /= voted ? deferred_->votes.loss_scale : deferred_->scale.factor;
  return hyper;
}

void Shard::update_held(std::uint32_t slot) {
  DeferredUpdates& deferred = *deferred_;
  ChunkState& chunk = chunks_[slot];
  copy_if_due(chunk);
  const bool overflow = deferred.votes.overflow && votes();
  bool whole = !overflow && deferred.finite[slot];
  if (whole) {
    const Hyper hyper = unscaled_hyper(chunk);
    for (std::uint32_t run = chunk.first_run; run < chunk.first_run + chunk.run_count; ++run) {
      whole = update_run(chunk, run, hyper) && whole;
    }
  }
  chunk.skipped = !whole;
  if (!whole && !overflow) updates_skipped.add(1);
  give_buffer(chunk.sum);
  --deferred.sums;
  reset(chunk);
  if (votes()) end_chunk_of_round();
}

// False: it was left out.
bool Shard::update_run(const ChunkState& chunk, std::uint32_t run, const Hyper& hyper) {
  DeferredUpdates& deferred = *deferred_;
  const DecayRun& part = runs_[run];
  const float trust = deferred.has_norms ? deferred.keys[deferred.key_of_run[run]].trust : 1.0F;
  if (!std::isfinite(trust)) return false;
  const std::size_t offset = chunk.home + part.offset;
  const Source sum = {chunk.sum + part.offset * sizeof(float), DataType::kFloat32};
  float* const parameters = memory_->parameters() + offset;
  float* const state = memory_->optimizer_state();
  const bool separate_master = wire_type_ != DataType::kFloat32;
  kernels::update({.sources = {&sum, 1},
                   .elements = part.elements,
                   .rule = rule_,
                   .hyper = hyper,
                   .weight_decay = part.weight_decay,
                   .trust = trust,
                   .parameters = parameters,
                   .state = state != nullptr ? state + offset : nullptr,
                   .published = separate_master
                                    ? memory_->published->data() + offset * size_of(wire_type_)
                                    : nullptr,
                   .published_type = wire_type_});
  if (deferred.has_norms) {
    deferred.squares[run].parameters = kernels::sum_of_squares(parameters, part.elements);
  }
  return true;
}

void Shard::measure_parameters(const ChunkState& chunk) {
  const float* const parameters = memory_->parameters() + chunk.home;
  for (std::uint32_t run = chunk.first_run; run < chunk.first_run + chunk.run_count; ++run) {
    deferred_->squares[run].parameters =
        kernels::sum_of_squares(parameters + runs_[run].offset, runs_[run].elements);
  }
}

// The last chunk of a round opens the votes of the next one.
void Shard::end_chunk_of_round() {
  DeferredUpdates::Votes& votes = deferred_->votes;
  if (--votes.chunks_left > 0) return;
  if (votes.overflow) rounds_skipped.add(1);
  votes = {.round = votes.round + 1, .chunks_left = chunks()};
  deferred_->voters.clear(0);
}

}  // namespace phub::server
