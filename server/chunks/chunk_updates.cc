#include "server/chunks/chunk_updates.h"

#include <array>

namespace phub::server {
namespace {

Pushers pushers_of(const JobLayout& layout) {
  if (layout.rack.is_alone() || layout.rack_local.is_on()) {
    return {.most = layout.workers,
            .type = layout.wire_type,
            .in_order = layout.deterministic,
            .encoding = layout.encoding};
  }
  return {.most = layout.rack.racks(), .in_order = layout.deterministic};
}

}  // namespace

ChunkUpdates::ChunkUpdates(const JobLayout& layout, std::uint32_t core,
                           std::shared_ptr<JobMemory> memory, BufferPool& staging,
                           RoundMembers& members)
    : chunks(layout.plan->core_chunks[layout.server_index][core].size()),
      parameters(layout, std::move(memory)),
      sums(pushers_of(layout), chunks.size(), staging),
      copying(chunks, parameters, layout.rounds.waits_for_all()),
      replies(layout, chunks, parameters),
      restored_(layout.initial != nullptr),
      members_(members) {
  for (std::uint32_t slot = 0; slot < chunks.size(); ++slot) {
    const std::uint32_t id = layout.plan->core_chunks[layout.server_index][core][slot];
    ShardChunk& chunk = chunks[slot];
    chunk.place = parameters.add(layout, layout.plan->chunks[id]);
    chunk.hyper = layout.hyper;
    chunk.sum.members = layout.workers;
    chunk.initialised = !has_parameters(layout.rule);
    chunk.is_root = layout.rack.is_alone() || layout.rack.is_root(layout.plan->chunks[id].tree);
    chunk.votes_here = chunk.is_root || layout.rack_local.is_on();
    if (!restored_) continue;
    // The first round of a restored job replies with what was restored, so its number is the
    // snapshot's again.
    parameters.restore(*layout.initial, chunk.place);
    chunk.rounds = layout.initial->round - 1;
    chunk.left_out = layout.initial->left_out();
    elements_touched.add(chunk.place.elements);
  }
  if (sums_wait(layout)) gate_.emplace(layout, core, chunks, parameters, skipped);
}

PushResult ChunkUpdates::finish(std::uint32_t slot) {
  ShardChunk& chunk = chunks[slot];
  const bool combines = joined_.exchange != nullptr && joined_.exchange->combines(chunk);
  if (gate_ || combines) sums.merge(slot, chunk.sum, chunk.place.elements);
  if (joined_.watch != nullptr && joined_.watch->ends_job()) return PushResult::kForbidden;
  if (gate_) return on_summed(slot);
  write_down(slot, false);
  copying.copy_if_due(chunk);
  replies.begin_update(slot);
  if (joined_.watch == nullptr) {
    apply(slot);
  } else if (!apply_looking(slot)) {
    return PushResult::kForbidden;
  }
  replies.end_update(slot);
  return end(slot);
}

// The rule has been applied, and in this rack the round is over.
PushResult ChunkUpdates::end(std::uint32_t slot) {
  ShardChunk& chunk = chunks[slot];
  if (joined_.open != nullptr) {
    joined_.open->end_round(slot);
    return settle(slot);
  }
  if (joined_.outer != nullptr && joined_.outer->is_due(chunk)) {
    chunk.enter(ChunkState::kUpdating);
    sums.clear(slot, chunk.sum);
    return joined_.outer->add_own(slot) ? end_exchange(slot) : PushResult::kGathered;
  }
  chunk.is_for_racks = joined_.outer == nullptr;
  complete(slot);
  return PushResult::kCompleted;
}

// All differences of this rack and those below are there.
PushResult ChunkUpdates::end_exchange(std::uint32_t slot) {
  ShardChunk& chunk = chunks[slot];
  if (!chunk.is_root) {
    joined_.outer->write_up(slot);
    chunk.enter(ChunkState::kLanding);
    return PushResult::kGoesUp;
  }
  joined_.outer->finish(slot);
  if (gate_) gate_->on_initialised(chunk);  // norms of the parameters
  chunk.is_for_racks = true;
  complete(slot);
  return PushResult::kCompleted;
}

PushResult ChunkUpdates::settle(std::uint32_t slot) {
  const OuterRounds::Outcome& outcome = joined_.open->rounds.outcome;
  if (gate_ && outcome.has_moved) gate_->on_initialised(chunks[slot]);  // norms of the parameters
  if (outcome.is_complete) complete(slot);
  return PushResult::kExchanging;
}

PushResult ChunkUpdates::add_difference(const Push& push) {
  if (joined_.open != nullptr) {
    const PushResult seen = joined_.open->add(push);
    return seen == PushResult::kExchanging ? settle(push.slot) : seen;
  }
  bool are_all = false;
  const PushResult seen = joined_.outer->add(push, are_all);
  return are_all ? end_exchange(push.slot) : seen;
}

void ChunkUpdates::step_outer(std::uint32_t slot) {
  ShardChunk& chunk = chunks[slot];
  joined_.outer->step(slot, reinterpret_cast<const float*>(chunk.sum.data));
  if (gate_) gate_->on_initialised(chunk);
  chunk.is_for_racks = true;
  complete(slot);
}

void ChunkUpdates::apply(std::uint32_t slot) {
  ShardChunk& chunk = chunks[slot];
  parameters.begin_update(chunk);
  std::array<kernels::Source, kernels::kMaxSources> sources;  // NOLINT(*-member-init): filled below
  for (std::uint32_t i = 0; i < chunk.place.run_count; ++i) {
    const ChunkParameters::Run& run = parameters.run(chunk.place.first_run + i);
    const std::size_t count = sums.sources(slot, chunk.sum, run.offset, sources);
    parameters.update(chunk.place, run, {sources.data(), count}, chunk.hyper);
  }
}

// Some pushes are not added up yet, and nobody has looked at them. False: the job is to end, and
// the parameters are neither of the round before nor of this one.
bool ChunkUpdates::apply_looking(std::uint32_t slot) {
  ShardChunk& chunk = chunks[slot];
  chunk.enter(ChunkState::kUpdating);
  parameters.begin_update(chunk);
  std::array<kernels::Source, kernels::kMaxSources> sources;  // NOLINT(*-member-init): filled below
  bool finite = true;
  for (std::uint32_t i = 0; i < chunk.place.run_count; ++i) {
    const ChunkParameters::Run& run = parameters.run(chunk.place.first_run + i);
    const std::size_t count = sums.sources(slot, chunk.sum, run.offset, sources);
    const std::span<const kernels::Source> all(sources.data(), count);
    finite = parameters.update_and_look(chunk.place, run, all, chunk.hyper) && finite;
  }
  if (!finite) sums.look_at_rest(slot, chunk.sum, chunk.place.elements);
  return !joined_.watch->ends_job();
}

void ChunkUpdates::begin(std::uint32_t slot) {
  ShardChunk& chunk = chunks[slot];
  if (restored_ && joined_.open != nullptr) joined_.open->begin_restored(slot);
  if (gate_) gate_->on_initialised(chunk);
  if (joined_.outer != nullptr) {
    if (!restored_) joined_.outer->begin(slot);
    chunk.is_for_racks = !restored_;
    chunk.leader = 0;
  }
  if (joined_.exchange != nullptr && joined_.exchange->compresses()) {
    joined_.exchange->keep_initial(slot);
  }
  chunk.initialised = true;
  complete(slot);
}

void ChunkUpdates::complete(std::uint32_t slot) {
  ShardChunk& chunk = chunks[slot];
  const std::uint32_t pushes = chunk.sum.pushes;
  sums.clear(slot, chunk.sum);
  if (chunk.rounds == 0 && !restored_) elements_touched.add(chunk.place.elements);
  ++chunk.rounds;
  chunk.state = ChunkState::kGathering;  // it may follow each
  RackResiduals::end(chunk);
  members_.end_round(slot, chunk.rounds, pushes);
  copying.copy_if_due(chunk);
  chunks_completed.add(1);
}

void ChunkUpdates::leave_out(std::uint32_t slot) {
  ShardChunk& chunk = chunks[slot];
  copying.copy_if_due(chunk);
  chunk.skipped = true;
  chunk.has_next_rest = false;  // what the round would have sent of it stays in the residual
  ++chunk.left_out;
  if (gate_->averages_all()) parameters.average_landed(chunk.place);
  complete(slot);
}

// Where each rack applies the rule, the root's sum goes down: nothing of it for a left out round.
void ChunkUpdates::write_down(std::uint32_t slot, bool is_left_out) {
  const ShardChunk& chunk = chunks[slot];
  RackExchange* const exchange = joined_.exchange;
  if (exchange == nullptr || joined_.outer != nullptr) return;
  if (!chunk.is_root || !exchange->combines(chunk)) return;
  const auto* const sum = reinterpret_cast<const float*>(chunk.sum.data);
  exchange->write_down(slot, chunk.hyper, {sum, is_left_out ? 0 : chunk.place.elements});
}

void ChunkUpdates::begin_landing(std::uint32_t slot) {
  copying.copy_if_due(chunks[slot]);
  chunks[slot].enter(ChunkState::kLanding);
}

PushResult ChunkUpdates::on_summed(std::uint32_t slot) {
  chunks[slot].enter(ChunkState::kSummed);
  switch (gate_->on_sum(slot)) {
    case DeferredUpdates::Due::kLater:
      return PushResult::kDeferred;
    case DeferredUpdates::Due::kQueued:
      return PushResult::kUpdatesDue;
    case DeferredUpdates::Due::kAtOnce:
      break;
  }
  return update_deferred(slot);
}

// A copy has the state that its parameters go with.
bool ChunkUpdates::prepare_due() {
  const auto slot = gate_->next_to_direct();
  if (!slot) return false;
  copying.copy_if_due(chunks[*slot]);
  chunks[*slot].enter(ChunkState::kUpdating);
  write_down(*slot, false);
  gate_->direct(*slot);
  return true;
}

std::pair<std::uint32_t, PushResult> ChunkUpdates::update_due() {
  while (prepare_due()) {
  }
  const std::uint32_t slot = gate_->take_due();
  return {slot, update_deferred(slot)};
}

PushResult ChunkUpdates::update_deferred(std::uint32_t slot) {
  ShardChunk& chunk = chunks[slot];
  copying.copy_if_due(chunk);
  const bool is_left_out = gate_->leaves_out_round(slot);
  if (is_left_out || !gate_->directs()) write_down(slot, is_left_out);
  if (is_left_out || !gate_->is_finite(slot)) chunk.has_next_rest = false;  // it stays as it was
  replies.begin_update(slot);
  chunk.skipped = !gate_->update(slot);
  replies.end_update(slot);
  if (is_left_out) ++chunk.left_out;
  return end(slot);
}

}  // namespace phub::server
