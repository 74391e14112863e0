#include "server/chunks/shard.h"

#include <array>

namespace phub::server {

Shard::Shard(const JobLayout& layout, std::uint32_t core, std::shared_ptr<JobMemory> memory,
             BufferPool& staging)
    : copying(chunks_, parameters_),
      workers_(layout.workers),
      has_parameters_(has_parameters(layout.rule)),
      restored_(layout.initial != nullptr),
      staging_(staging),
      parameters_(layout, std::move(memory)),
      chunks_(layout.plan->core_chunks[layout.server_index][core].size()),
      arrived_(chunks_.size(), layout.workers),
      sums_(layout, chunks_.size(), staging) {
  for (std::uint32_t slot = 0; slot < chunks(); ++slot) {
    const std::uint32_t id = layout.plan->core_chunks[layout.server_index][core][slot];
    ShardChunk& chunk = chunks_[slot];
    chunk.place = parameters_.add(layout, layout.plan->chunks[id]);
    chunk.hyper = layout.hyper;
    if (!restored_) continue;
    // The first round of a restored job replies with what was restored, so its number is the
    // snapshot's again.
    parameters_.restore(*layout.initial, chunk.place);
    chunk.rounds = layout.initial->round - 1;
    elements_touched.add(chunk.place.elements);
  }
  if (sums_wait(layout)) deferred_.emplace(layout, core, chunks_, parameters_, skipped);
}

PushResult Shard::on_push(const Push& push) {
  const auto refuse = [&](PushResult result) {
    if (push.staged) staging_.give(push.data);
    return result;
  };
  if (stopped_) return refuse(PushResult::kStopped);
  if (push.slot >= chunks_.size()) return refuse(PushResult::kUnknownChunk);
  if (push.bytes != push_bytes(push.slot)) return refuse(PushResult::kBadLength);
  ShardChunk& chunk = chunks_[push.slot];
  // Only pushes that come twice can take every buffer, and a sum may need one.
  if (staging_.free() == 0) return refuse(PushResult::kDuplicate);
  if (!arrived_.insert(push.slot, push.worker)) return refuse(PushResult::kDuplicate);

  if (push.worker == 0) chunk.hyper = *push.hyper;
  if (has_parameters_ && !chunk.initialised) return initialise(push, chunk);
  if (!sums_.add(push, chunk)) return PushResult::kAccepted;
  if (deferred_) return defer(push.slot);
  update(push.slot);
  return PushResult::kCompleted;
}

// The first round of a rule with parameters: worker 0's push is the initial value.
PushResult Shard::initialise(const Push& push, ShardChunk& chunk) {
  if (push.worker == 0 && !restored_) parameters_.set(chunk.place, push.data);
  if (push.staged) staging_.give(push.data);
  if (++chunk.sum.pushes < workers_) return PushResult::kAccepted;
  parameters_.publish(chunk.place);
  if (deferred_) deferred_->on_initialised(chunk);
  chunk.initialised = true;
  complete(push.slot);
  return PushResult::kCompleted;
}

// The last push of a round has arrived.
PushResult Shard::defer(std::uint32_t slot) {
  sums_.merge(slot, chunks_[slot]);
  switch (deferred_->on_sum(slot)) {
    case DeferredUpdates::Due::kLater:
      return PushResult::kDeferred;
    case DeferredUpdates::Due::kQueued:
      return PushResult::kUpdatesDue;
    case DeferredUpdates::Due::kAtOnce:
      update_deferred(slot);
  }
  return PushResult::kCompleted;
}

std::uint32_t Shard::update_due() {
  const std::uint32_t slot = deferred_->take_due();
  update_deferred(slot);
  return slot;
}

void Shard::update_deferred(std::uint32_t slot) {
  copying.copy_if_due(chunks_[slot]);
  chunks_[slot].skipped = !deferred_->update(slot);
  complete(slot);
}

void Shard::update(std::uint32_t slot) {
  ShardChunk& chunk = chunks_[slot];
  copying.copy_if_due(chunk);
  std::array<kernels::Source, kernels::kMaxSources> sources;  // NOLINT(*-member-init): filled below
  for (std::uint32_t i = 0; i < chunk.place.run_count; ++i) {
    const ChunkParameters::Run& run = parameters_.run(chunk.place.first_run + i);
    const std::size_t count = sums_.sources(slot, chunk.sum, run.offset, sources);
    parameters_.update(chunk.place, run, {sources.data(), count}, chunk.hyper);
  }
  complete(slot);
}

void Shard::complete(std::uint32_t slot) {
  ShardChunk& chunk = chunks_[slot];
  sums_.clear(slot, chunk.sum);
  arrived_.clear(slot);
  if (chunk.rounds == 0 && !restored_) elements_touched.add(chunk.place.elements);
  ++chunk.rounds;
  copying.copy_if_due(chunk);
  chunks_completed.add(1);
}

}  // namespace phub::server
