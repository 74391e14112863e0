#include "server/chunks/shard.h"

namespace phub::server {

Shard::Shard(const JobLayout& layout, std::uint32_t core, std::shared_ptr<JobMemory> memory,
             BufferPool& staging)
    : members(layout, layout.plan->core_chunks[layout.server_index][core].size()),
      updates(layout, core, std::move(memory), staging, members),
      reader(layout, core, updates.chunks, updates.parameters, staging),
      workers_(layout.workers),
      restored_(layout.initial != nullptr),
      is_plain_(layout.rack.is_alone() && layout.rounds.waits_for_all() && !sums_wait(layout) &&
                layout.encoding == Encoding::kDense && layout.watch_values == WatchValues::kOff &&
                !layout.checksums && layout.tcp_streams == 1),
      mean_scale_(1.0F / static_cast<float>(layout.workers)),
      staging_(staging) {
  if (!layout.rack.is_alone()) {
    racks.emplace(layout, core, updates.chunks, reader, staging);
    exchange.emplace(layout, core, updates.chunks, updates.parameters, staging);
  }
  if (layout.rack_local.is_on()) {
    outer.emplace(layout, updates.chunks, updates.parameters, *exchange, staging);
  }
  if (outer && members.rounds()) members.rounds()->hypers.reset(outer->of_rack(layout.hyper));
  if (layout.rack_local.goes_on()) {
    open.emplace(layout, updates.chunks, *outer, *exchange, staging);
  }
  if (racks) {
    rack_rounds.emplace(RackRounds::Parts{.updates = updates,
                                          .reader = reader,
                                          .sums = *racks,
                                          .exchange = *exchange,
                                          .staging = staging,
                                          .makes_own = outer.has_value(),
                                          .open = open ? &*open : nullptr,
                                          .is_restored = restored_},
                        layout.rule);
  }
  const bool is_as_alone = !racks || outer;
  if (is_as_alone) reader.read_for(updates.sums);
  updates.join({.exchange = exchange ? &*exchange : nullptr,
                .outer = outer ? &*outer : nullptr,
                .open = open ? &*open : nullptr,
                .watch = is_as_alone && reader.looks_at_sums() ? reader.watch() : nullptr});
}

PushResult Shard::on_push(const Push& push) {
  const auto refuse = [&](PushResult result) {
    if (push.staged) staging_.give(push.data);
    return result;
  };
  if (stopped_) return refuse(PushResult::kStopped);
  if (push.slot >= chunks()) return refuse(PushResult::kUnknownChunk);
  ShardChunk& chunk = updates.chunks[push.slot];
  const bool is_worker = push.worker < workers_;
  if (!is_worker || push.bytes != updates.parameters.bytes(chunk.place)) {
    if (!has_right_length(push, chunk)) return refuse(PushResult::kBadLength);
    if (!is_worker && !racks->pushes(push.worker, chunk)) return refuse(PushResult::kUnknownChunk);
  }
  // Only pushes that come twice can take every buffer, and a sum may need one.
  if (staging_.free() == 0) return refuse(PushResult::kDuplicate);
  if (!is_worker && outer && (chunk.initialised || restored_)) return updates.add_difference(push);
  if (!members.arrive(push.slot, push.worker)) {
    return refuse(members.rounds() ? PushResult::kTooEarly : PushResult::kDuplicate);
  }

  if (!chunk.initialised) return initialise(push, chunk);
  if (!is_plain_) {
    return racks && !outer ? stop_if_it_ends(rack_rounds->add(push, chunk)) : add_own(push, chunk);
  }
  if (push.worker == chunk.leader) chunk.hyper = *push.hyper;
  const bool is_last = updates.sums.add(push.slot, push.worker, {push.data, push.staged}, chunk.sum,
                                        chunk.place.elements);
  if (!is_last) return PushResult::kAccepted;
  updates.update(push.slot);
  return PushResult::kCompleted;
}

bool Shard::has_right_length(const Push& push, const ShardChunk& chunk) const {
  return push.worker < workers_ ? reader.has_right_length(push, chunk)
                                : exchange->may_push(push.slot, push.bytes);
}

// Nobody is replied to with what is made of such a push. The control plane, which looks at the
// findings, ends the job.
PushResult Shard::stop_if_it_ends(PushResult result) {
  if (result == PushResult::kCorrupt || result == PushResult::kForbidden) stop();
  return result;
}

// Adds a worker's push of a job that is not plain and has one rack, or racks that make rounds by
// themselves.
PushResult Shard::add_own(Push push, ShardChunk& chunk) {
  Contribution own;
  const PushResult seen = reader.read(push, chunk, own);
  if (seen != PushResult::kAccepted) return stop_if_it_ends(seen);
  if (members.rounds()) return join_round(push, own, chunk);
  if (push.worker == chunk.leader) chunk.hyper = outer ? outer->of_rack(*push.hyper) : *push.hyper;
  if (!updates.sums.add_read(push, own, chunk.sum, chunk.place.elements)) {
    return stop_if_it_ends(reader.ends_job() ? PushResult::kForbidden : PushResult::kAccepted);
  }
  if (!reader.read_rest(push.slot, updates.sums, chunk.sum)) {
    return stop_if_it_ends(PushResult::kCorrupt);
  }
  return stop_if_it_ends(updates.finish(push.slot));
}

// The first round of a rule with parameters: the leader's push is the initial value. Where the root
// is elsewhere it goes up as it is.
PushResult Shard::initialise(Push push, ShardChunk& chunk) {
  const bool is_worker = push.worker < workers_;
  const bool leads = push.worker == chunk.leader;
  const bool holds = leads && !restored_;
  if (is_worker) {
    const PushResult seen = reader.read_initial(push, chunk, holds);
    if (seen != PushResult::kAccepted) return stop_if_it_ends(seen);
  }
  if (leads) {
    chunk.hyper = *push.hyper;
    if (members.rounds() && is_worker) {
      const Hyper hyper = outer ? outer->of_rack(*push.hyper) : *push.hyper;
      members.rounds()->hypers.begin(push.slot, push.worker, hyper);
    }
  }
  if (holds) {
    const DataType type = is_worker ? updates.parameters.wire_type() : DataType::kFloat32;
    if (chunk.is_root) {
      updates.parameters.set(chunk.place, push.data, type);
      updates.parameters.begin_average(chunk.place);
    } else {
      exchange->write_initial(push.slot, {push.data, type});
    }
  }
  if (push.staged) staging_.give(push.data);
  // Racks that make rounds by themselves are restored each with its own parameters.
  const bool is_of_racks = racks && !(outer && restored_);
  const bool are_all_workers = racks && is_worker && racks->is_last_worker(push.slot);
  const std::uint32_t below = is_of_racks ? racks->place().members(chunk.tree) - 1 : 0;
  if (++chunk.sum.pushes < workers_ + below) {
    return are_all_workers ? PushResult::kGathered : PushResult::kAccepted;
  }
  chunk.sum.clear();
  if (is_of_racks && !chunk.is_root) {
    rack_rounds->begin_above(push.slot);
    return PushResult::kGoesUp;
  }
  updates.parameters.publish(chunk.place);
  updates.begin(push.slot);
  return PushResult::kCompleted;
}

PushResult Shard::take_reply(std::uint32_t slot, std::span<const std::byte> data, bool is_skipped) {
  const PushResult taken =
      stopped_ ? PushResult::kStopped : rack_rounds->take_reply(slot, data, is_skipped);
  if (staging_.owns(data.data())) {  // place_of_reply took it
    staging_.give(const_cast<std::byte*>(data.data()));
  }
  return taken;
}

VoteOutcome Shard::vote(std::uint32_t worker, const Vote& vote) {
  if (stopped_) return VoteOutcome::kStopped;
  if (updates.gate() == nullptr || !updates.gate()->votes()) return VoteOutcome::kUnasked;
  const VoteOutcome outcome = count_vote(worker, vote);
  const bool counts = outcome == VoteOutcome::kAccepted || outcome == VoteOutcome::kUpdatesDue;
  if (reader.watch() != nullptr && counts && worker < workers_ && vote.overflow == 1) {
    reader.watch()->on_overflow_vote(worker);
  }
  return outcome;
}

VoteOutcome Shard::count_vote(std::uint32_t worker, const Vote& vote) {
  if (racks && !outer) {
    const bool is_worker = racks->is_worker(worker);
    const VoteOutcome own = is_worker ? racks->vote(worker, vote) : VoteOutcome::kAccepted;
    if (own != VoteOutcome::kAccepted) return own;
    if (racks->roots() == 0) return VoteOutcome::kAccepted;  // others count it
  } else if (worker >= workers_) {
    return VoteOutcome::kUnasked;
  }
  return updates.gate()->vote(worker, vote);
}

NormOutcome Shard::tell_norm(std::uint32_t worker, double squares) {
  if (stopped_) return NormOutcome::kStopped;
  NormWords* const words = updates.gate() == nullptr ? nullptr : updates.gate()->words();
  const bool is_asked = words != nullptr && worker < workers_;
  return is_asked ? words->add(worker, squares) : NormOutcome::kUnasked;
}

}  // namespace phub::server
