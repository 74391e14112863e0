// What a shard does beside its sums for a job that watches values: value_watch.h.
#include <array>

#include "server/chunks/shard.h"

namespace phub::server {

// What is folded as it comes, for no sum has it in its place later. False: the job is to end, and
// the push's buffer is given back.
bool Shard::look_at_staged(const Push& push, const Contribution& own, std::size_t elements) {
  const bool is_folded = own.staged || rounds_ || encoding_ != Encoding::kDense;
  if (!is_folded) return true;
  const ValueWatch::Pushed pushed{push.slot, push.worker};
  if (own.packed) {
    watch_->look_at_packed(pushed, own.data);
  } else {
    watch_->look_at(pushed, {own.data, parameters_.wire_type()}, elements);
  }
  if (!watch_->ends_job()) return true;
  if (own.staged) staging_.give(own.data);
  return false;
}

// As finish, of pushes of which some are in place, and not looked at yet.
PushResult Shard::finish_looking(std::uint32_t slot) {
  ShardChunk& chunk = chunks_[slot];
  if (deferred_) {
    sums_.merge(slot, chunk.sum, chunk.place.elements);
    return watch_->ends_job() ? stop_for_values() : on_summed(slot);
  }
  copying.copy_if_due(chunk);
  parameters_.begin_update(chunk);
  std::array<kernels::Source, kernels::kMaxSources> sources;  // NOLINT(*-member-init): filled below
  bool finite = true;
  for (std::uint32_t i = 0; i < chunk.place.run_count; ++i) {
    const ChunkParameters::Run& run = parameters_.run(chunk.place.first_run + i);
    const std::size_t count = sums_.sources(slot, chunk.sum, run.offset, sources);
    const std::span<const kernels::Source> all(sources.data(), count);
    finite = parameters_.update_and_look(chunk.place, run, all, chunk.hyper) && finite;
  }
  if (!finite) sums_.look_at_rest(slot, chunk.sum, chunk.place.elements);
  if (watch_->ends_job()) return stop_for_values();
  complete(slot);
  return PushResult::kCompleted;
}

// Nobody is replied to with what is made of it. The control plane, which looks at the findings,
// ends the job.
PushResult Shard::stop_for_values() {
  stop();
  return PushResult::kAccepted;
}

}  // namespace phub::server
