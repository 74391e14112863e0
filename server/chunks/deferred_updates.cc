#include "server/chunks/deferred_updates.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "common/base/check.h"

namespace phub::server {
namespace {

// Chunks on whose rounds this server counts the votes.
std::size_t voted_on(const std::vector<ShardChunk>& chunks) {
  return static_cast<std::size_t>(std::ranges::count_if(chunks, &ShardChunk::votes_here));
}

// Whoever votes here: this rack's workers, and all other racks where rounds are theirs together.
std::uint32_t voters(const JobLayout& layout) {
  return layout.rack_local.is_on() ? layout.workers : seats(layout);
}

}  // namespace

using kernels::Source;

// The round of initial parameters, which nobody votes on, comes before the first that is voted on.
DeferredUpdates::DeferredUpdates(const JobLayout& layout, std::uint32_t core,
                                 const std::vector<ShardChunk>& chunks, ChunkParameters& parameters,
                                 SkipCounters& skipped)
    : chunks_(chunks),
      parameters_(parameters),
      skipped_(skipped),
      scale_(layout.loss_scale),
      averages_all_(!layout.rack.is_alone() && !layout.rack_local.is_on() &&
                    needs_whole_keys(layout.rule)),
      divides_(!layout.rack_compress.is_on() || layout.rack_local.is_on()),
      is_lamb_(layout.rule == RuleKind::kLamb),
      norm_(layout, core, chunks.size(), *parameters.memory()),
      finite_(chunks.size(), true),
      votes_(voters(layout), voted_on(chunks), (chunks.empty() ? 0 : chunks.front().rounds) + 1) {
  const Plan& plan = *layout.plan;
  const std::vector<std::uint32_t>& ids = plan.core_chunks[layout.server_index][core];
  if (needs_whole_keys(layout.rule)) norms_.emplace(layout.lars);
  for (std::uint32_t slot = 0; slot < ids.size(); ++slot) {
    const Chunk& chunk = plan.chunks[ids[slot]];
    const bool continues_key = norms_ && plan.segments[chunk.first_segment].key_offset > 0;
    const bool goes_on = norm_.is_on() ? slot > 0 : continues_key;
    PHUB_CHECK(!continues_key || (slot > 0 && ids[slot - 1] + 1 == ids[slot]),
               "the plan has whole keys");
    if (!goes_on) groups_.push_back({.first_slot = slot, .first_key = norms_ ? norms_->keys() : 0});
    Group& group = groups_.back();
    ++group.slots;
    group_of_.push_back(static_cast<std::uint32_t>(groups_.size() - 1));
    for (std::uint32_t i = 0; norms_ && i < chunk.segment_count; ++i) {
      const std::uint32_t key = plan.segments[chunk.first_segment + i].key;
      if (!continues_key) {
        norms_->add_key(!layout.exclude_from_lars.empty() && layout.exclude_from_lars[key],
                        layout.weight_decay[key]);
        ++group.keys;
      }
      norms_->add_run();
    }
  }
  due_.reserve(groups_.size());
}

void DeferredUpdates::on_initialised(const ShardChunk& chunk) {
  if (!norms_) return;
  const std::uint32_t first = chunk.place.first_run;
  for (std::uint32_t run = first; run < first + chunk.place.run_count; ++run) {
    norms_->squares(run).parameters = parameters_.sum_of_squares(chunk.place, parameters_.run(run));
  }
}

// Finds what the update has to know of a chunk's sum, while the sum is in the cache.
void DeferredUpdates::look_at(std::uint32_t slot) {
  const ShardChunk& chunk = chunks_[slot];
  const auto* const sum = reinterpret_cast<const float*>(chunk.sum.data);
  if (norms_) {
    const std::uint32_t first = chunk.place.first_run;
    for (std::uint32_t run = first; run < first + chunk.place.run_count; ++run) {
      const auto& [offset, elements, decay] = parameters_.run(run);
      // With clipping the norm of all gradients says whether they are finite.
      norms_->squares(run).gradients =
          norm_.is_on() ? 0.0 : kernels::sum_of_squares(sum + offset, elements);
    }
  }
  if (norm_.is_on()) {
    norm_.set(slot, chunk.rounds, kernels::sum_of_squares(sum, chunk.place.elements));
  } else if (!norms_) {
    finite_[slot] = kernels::all_finite({chunk.sum.data, DataType::kFloat32}, chunk.place.elements);
  }
}

DeferredUpdates::Due DeferredUpdates::on_sum(std::uint32_t slot) {
  ++sums_;
  look_at(slot);
  Group& group = groups_[group_of_[slot]];
  ++group.summed;
  if (norm_.is_on() && group.summed == group.slots) norm_.post(chunks_[slot].rounds);
  if (!is_due(group)) return Due::kLater;
  if (group.slots > 1 || norm_.is_on() || is_lamb_) {
    due_.push(group_of_[slot]);
    return Due::kQueued;
  }
  prepare(group);
  return Due::kAtOnce;
}

bool DeferredUpdates::is_due(const Group& group) const {
  if (group.summed < group.slots) return false;
  if (!waits_for_votes(group)) return true;
  return votes_.are_all() && chunks_[group.first_slot].rounds == votes_.round();
}

VoteOutcome DeferredUpdates::vote(std::uint32_t worker, const Vote& vote) {
  if (!votes() || chunks_.empty()) return VoteOutcome::kUnasked;
  const VoteOutcome outcome = votes_.add(worker, vote);
  if (outcome != VoteOutcome::kAccepted || !votes_.are_all()) return outcome;
  for (std::uint32_t index = 0; index < groups_.size(); ++index) {
    if (waits_for_votes(groups_[index]) && is_due(groups_[index])) due_.push(index);
  }
  return due_.empty() ? VoteOutcome::kAccepted : VoteOutcome::kUpdatesDue;
}

std::optional<std::uint32_t> DeferredUpdates::next_to_direct() {
  if (!is_lamb_) return std::nullopt;
  Group& group = groups_[due_.front()];
  if (!front_.is_prepared) prepare(group);
  front_.is_prepared = true;
  if (leaves_out_round(group.first_slot) || front_.directed == group.slots) return std::nullopt;
  return group.first_slot + front_.directed;
}

// From here on the chunk's state has the update, but its parameters do not.
void DeferredUpdates::direct(std::uint32_t slot) {
  const ShardChunk& chunk = chunks_[slot];
  const Hyper hyper = unscaled_hyper(chunk);
  auto* const sum = reinterpret_cast<float*>(chunk.sum.data);
  parameters_.begin_update(chunk);
  const std::uint32_t first = chunk.place.first_run;
  for (std::uint32_t index = first; index < first + chunk.place.run_count; ++index) {
    if (!std::isfinite(norms_->trust(index))) continue;
    const ChunkParameters::Run& run = parameters_.run(index);
    norms_->squares(index).gradients =
        parameters_.direct(chunk.place, run, sum + run.offset, hyper);
  }
  const Group& group = groups_[due_.front()];
  if (++front_.directed < group.slots) return;
  for (std::uint32_t key = group.first_key; key < group.first_key + group.keys; ++key) {
    norms_->find_lamb_trust(key);
  }
}

std::uint32_t DeferredUpdates::take_due() {
  Group& group = groups_[due_.front()];
  if (!front_.is_prepared) prepare(group);
  front_.is_prepared = true;
  const std::uint32_t slot = group.first_slot + front_.taken;
  if (++front_.taken == group.slots) {
    front_.is_prepared = false;
    front_.directed = 0;
    front_.taken = 0;
    due_.pop();
  }
  return slot;
}

// Finds the trust of the group's keys and the factor that clips. From now on sums are the next
// round's: a chunk that was updated and replied to may be pushed again before its neighbours are.
void DeferredUpdates::prepare(Group& group) {
  group.summed = 0;
  const ShardChunk& first = chunks_[group.first_slot];
  front_.clip = 1.0F;
  const float gradient_scale = unscaled_hyper(first).gradient_scale;
  front_.clip = norm_.find_clip(first.rounds, gradient_scale);
  for (std::uint32_t key = group.first_key; key < group.first_key + group.keys; ++key) {
    is_lamb_ ? norms_->look_at_gradients(key) : norms_->find_trust(key, gradient_scale);
  }
}

Hyper DeferredUpdates::unscaled_hyper(const ShardChunk& chunk) const {
  Hyper hyper = chunk.hyper;
  if (divides_) hyper.gradient_scale /= votes() ? votes_.loss_scale() : scale_.factor;
  hyper.gradient_scale *= front_.clip;
  return hyper;
}

bool DeferredUpdates::update(std::uint32_t slot) {
  const bool is_voted_on = votes() && chunks_[slot].votes_here;
  const bool is_against = is_voted_on && votes_.are_against();
  const bool is_tried = !leaves_out_round(slot) && finite_[slot];
  const bool is_whole = is_tried && update_runs(chunks_[slot]);
  if (!is_tried && averages_all_) parameters_.average_landed(chunks_[slot].place);
  if (!is_whole && !is_against) skipped_.updates.add(1);
  --sums_;
  if (is_voted_on && votes_.end_chunk() && is_against) skipped_.rounds.add(1);
  return is_whole;
}

// Updates the chunk's runs. False: one of them was left out.
bool DeferredUpdates::update_runs(const ShardChunk& chunk) {
  const Hyper hyper = unscaled_hyper(chunk);
  bool is_whole = true;
  parameters_.begin_update(chunk);
  const std::uint32_t first = chunk.place.first_run;
  for (std::uint32_t index = first; index < first + chunk.place.run_count; ++index) {
    const float trust = norms_ ? norms_->trust(index) : 1.0F;
    const ChunkParameters::Run& run = parameters_.run(index);
    if (!std::isfinite(trust)) {
      is_whole = false;
      parameters_.residuals.keep(chunk, run.offset, run.elements);
      if (averages_all_) parameters_.update_average(chunk.place, run);
      continue;
    }
    const Source sum = {chunk.sum.data + run.offset * sizeof(float), DataType::kFloat32};
    parameters_.update(chunk.place, run, {&sum, 1}, hyper, trust);
    if (norms_) norms_->squares(index).parameters = parameters_.sum_of_squares(chunk.place, run);
  }
  return is_whole;
}

}  // namespace phub::server
