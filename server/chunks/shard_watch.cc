// What a shard does beside its sums for a job that watches values or has checksums: value_watch.h,
// push_checks.h.
#include <array>

#include "server/chunks/shard.h"

namespace phub::server {

// What is added up without a look at the sum. False: the job is to end, and the push's buffer is
// given back.
bool Shard::look_at_once(const Push& push, const Contribution& own, std::size_t elements) {
  if (!rounds_ && encoding_ == Encoding::kDense) return true;
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

// As finish, of pushes of which some are not added up, and not looked at yet.
PushResult Shard::finish_looking(std::uint32_t slot) {
  ShardChunk& chunk = chunks_[slot];
  if (deferred_) {
    sums_.merge(slot, chunk.sum, chunk.place.elements);
    return watch_->ends_job() ? stop_for_values() : on_summed(slot);
  }
  copying.copy_if_due(chunk);
  chunk.is_ahead = true;  // and stays so where the job ends here
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
  chunk.is_ahead = false;
  complete(slot);
  return PushResult::kCompleted;
}

// Nobody is replied to with what is made of it. The control plane, which looks at the findings,
// ends the job.
PushResult Shard::stop_for_values() {
  stop();
  return PushResult::kAccepted;
}

// A push that stays where it is until the chunk's last one is compared then, when the sum is about
// to read it: each other one now, while it is hot. kAccepted, or what is wrong with it; then its
// buffer is given back.
PushResult Shard::check(Push& push, const ShardChunk& chunk) {
  push.bytes = checks_->payload_bytes(push.worker, push.bytes);
  const bool is_initial = has_parameters_ && !chunk.initialised;
  PushResult result = PushResult::kAccepted;
  if (push.bytes != parameters_.bytes(chunk.place) && !may_be_packed(push.bytes, chunk)) {
    result = PushResult::kBadLength;
  } else if (push.staged || is_initial || !stays_in_place(chunk)) {
    if (!checks_->check(push.worker, push.slot, {push.data, push.bytes})) {
      stop();
      result = PushResult::kCorrupt;
    }
  }
  if (result != PushResult::kAccepted && push.staged) staging_.give(push.data);
  return result;
}

// REQUIRES: the chunk's last push is there.
bool Shard::check_rest(std::uint32_t slot) {
  const ShardChunk& chunk = chunks_[slot];
  if (!stays_in_place(chunk)) return true;
  const std::uint32_t bytes = parameters_.bytes(chunk.place);
  bool are_right = true;
  sums_.for_each_in_place(slot, chunk.sum, [&](std::uint32_t worker, const std::byte* data) {
    are_right = checks_->check(worker, slot, {data, bytes}) && are_right;
  });
  if (!are_right) stop();
  return are_right;
}

bool Shard::may_push_checked(std::uint32_t slot, std::uint32_t bytes) const {
  if (!checks_ || slot >= chunks_.size()) return false;
  const std::uint32_t dense = parameters_.bytes(chunks_[slot].place);
  return bytes == dense || (encoding_ != Encoding::kDense && bytes < dense);
}

}  // namespace phub::server
