#include "server/chunks/shard.h"

#include <array>
#include <cstring>

#include "common/protocol/sparse_push.h"
#include "common/protocol/window_layout.h"
#include "kernels/quantise.h"

namespace phub::server {
namespace {

Pushers pushers_of(const JobLayout& layout) {
  if (layout.rack.is_alone()) {
    return {.most = layout.workers,
            .type = layout.wire_type,
            .in_order = layout.deterministic,
            .encoding = layout.encoding};
  }
  return {.most = layout.rack.racks(), .in_order = layout.deterministic};
}

}  // namespace

PushResult result_of(wire::SparseFault fault) {
  switch (fault) {
    case wire::SparseFault::kNone:
      return PushResult::kAccepted;
    case wire::SparseFault::kCount:
      return PushResult::kBadCount;
    case wire::SparseFault::kRange:
      return PushResult::kBadIndex;
    case wire::SparseFault::kOrder:
      return PushResult::kBadOrder;
  }
  return PushResult::kBadCount;
}

Shard::Shard(const JobLayout& layout, std::uint32_t core, std::shared_ptr<JobMemory> memory,
             BufferPool& staging)
    : copying(chunks_, parameters_, layout.rounds.waits_for_all()),
      workers_(layout.workers),
      has_parameters_(has_parameters(layout.rule)),
      restored_(layout.initial != nullptr),
      encoding_(layout.encoding),
      is_plain_(layout.rack.is_alone() && layout.rounds.waits_for_all() &&
                encoding_ == Encoding::kDense && layout.watch_values == WatchValues::kOff &&
                !layout.checksums && layout.tcp_streams == 1),
      mean_scale_(1.0F / static_cast<float>(layout.workers)),
      staging_(staging),
      parameters_(layout, std::move(memory)),
      chunks_(layout.plan->core_chunks[layout.server_index][core].size()),
      unchecked_(layout.checksums ? 0 : chunks()),
      arrived_(chunks_.size(), seats(layout)),
      sums_(pushers_of(layout), chunks_.size(), staging) {
  if (!layout.rack.is_alone()) {
    racks_.emplace(layout, core, chunks_.size(), parameters_.memory(), staging);
    if (layout.rack_compress.is_on()) compression_.emplace(layout, core);
  }
  if (!layout.rounds.waits_for_all()) {
    rounds_.emplace(layout.rounds, layout.workers, chunks_.size(), layout.hyper, arrived_);
  }
  for (std::uint32_t slot = 0; slot < chunks(); ++slot) {
    const std::uint32_t id = layout.plan->core_chunks[layout.server_index][core][slot];
    ShardChunk& chunk = chunks_[slot];
    chunk.place = parameters_.add(layout, layout.plan->chunks[id]);
    chunk.hyper = layout.hyper;
    chunk.sum.members = layout.workers;
    if (racks_) racks_->add(layout.plan->chunks[id].tree, chunk);
    if (!restored_) continue;
    // The first round of a restored job replies with what was restored, so its number is the
    // snapshot's again.
    parameters_.restore(*layout.initial, chunk.place);
    chunk.rounds = layout.initial->round - 1;
    chunk.left_out = layout.initial->left_out();
    elements_touched.add(chunk.place.elements);
  }
  if (parameters_.memory()->sparse_replies != nullptr) {
    sparse_replies_.emplace(layout, chunks_.size(), parameters_.memory()->sparse_replies);
  }
  if (sums_wait(layout)) deferred_.emplace(layout, core, chunks_, parameters_, skipped);
  if (layout.checksums) {
    checks_.emplace(layout, core, chunks_);
    sums_.know_workers();
  }
  if (clips_over_servers(layout)) {
    norm_word_ = {parameters_.memory()->norm_line(core), sizeof(double)};
    norm_landing_ =
        norm_line_offset(*layout.plan, layout.server_index, core, size_of(layout.wire_type));
  }
  if (layout.watch_values == WatchValues::kOff) return;
  watch_.emplace(layout, core, chunks_);
  if (racks_) racks_->watch(*watch_);
  const bool looks_later = !racks_ && !rounds_ && encoding_ == Encoding::kDense;
  if (looks_later) sums_.watch(*watch_);
}

PushResult Shard::on_push(const Push& push) {
  const auto refuse = [&](PushResult result) {
    if (push.staged) staging_.give(push.data);
    return result;
  };
  if (stopped_) return refuse(PushResult::kStopped);
  if (push.slot >= chunks_.size()) return refuse(PushResult::kUnknownChunk);
  ShardChunk& chunk = chunks_[push.slot];
  const bool is_worker = push.worker < workers_;
  if (push.bytes != (is_worker ? parameters_.bytes(chunk.place) : rack_bytes(push.slot))) {
    if (!has_right_length(push, chunk)) return refuse(PushResult::kBadLength);
  }
  if (!is_worker && !racks_->pushes(push.worker, chunk)) return refuse(PushResult::kUnknownChunk);
  // Only pushes that come twice can take every buffer, and a sum may need one.
  if (staging_.free() == 0) return refuse(PushResult::kDuplicate);
  if (!arrived_.insert(push.slot, push.worker)) {
    return refuse(rounds_ ? PushResult::kTooEarly : PushResult::kDuplicate);
  }

  if (has_parameters_ && !chunk.initialised) return initialise(push, chunk);
  if (!is_plain_) return racks_ ? add(push, chunk) : add_own(push, chunk);
  if (push.worker == chunk.leader) chunk.hyper = *push.hyper;
  const bool is_last =
      sums_.add(push.slot, push.worker, {push.data, push.staged}, chunk.sum, chunk.place.elements);
  return is_last ? finish(push.slot) : PushResult::kAccepted;
}

// Of a push that is not as long as its chunk.
bool Shard::has_right_length(const Push& push, const ShardChunk& chunk) const {
  if (push.worker >= workers_) return may_push_sum(push.slot, push.bytes);
  if (!checks_) return may_be_packed(push.bytes, chunk);
  const std::uint32_t bytes = checks_->payload_bytes(push.worker, push.bytes);
  return bytes == parameters_.bytes(chunk.place) || may_be_packed(bytes, chunk);
}

// Of workers. Initial values are whole.
bool Shard::may_be_packed(std::uint32_t bytes, const ShardChunk& chunk) const {
  const bool is_initial = has_parameters_ && !chunk.initialised;
  if (encoding_ == Encoding::kDense || is_initial) return false;
  if (bytes >= parameters_.bytes(chunk.place)) return false;
  const kernels::Bits bits = kernels::bits_of(encoding_);
  return encoding_ == Encoding::kSparse ||
         bytes == kernels::quantised_bytes(chunk.place.elements, bits);
}

// Of a job of one rack that is not plain.
PushResult Shard::add_own(const Push& arrived, ShardChunk& chunk) {
  Push push = arrived;
  if (checks_) {
    const PushResult seen = check(push, chunk);
    if (seen != PushResult::kAccepted) return seen;
  }
  Contribution own = {.data = push.data, .staged = push.staged};
  own.packed = push.bytes != parameters_.bytes(chunk.place);
  if (own.packed && encoding_ == Encoding::kSparse) {
    const PushResult seen = look_at(push, chunk.place.elements, own);
    if (seen != PushResult::kAccepted) return seen;
  }
  if (watch_ && !look_at_once(push, own, chunk.place.elements)) return stop_for_values();
  if (rounds_) return join_round(push, own, chunk);
  if (push.worker == chunk.leader) chunk.hyper = *push.hyper;
  const std::uint32_t elements = chunk.place.elements;
  sums_.note(push.slot, push.worker, chunk.sum);
  const bool is_last = encoding_ == Encoding::kDense
                           ? sums_.add(push.slot, push.worker, own, chunk.sum, elements)
                           : sums_.add_folded(push.slot, push.worker, own, chunk.sum, elements);
  if (is_last && checks_ && !check_rest(push.slot)) return PushResult::kCorrupt;
  if (is_last) return finish_own(push.slot);
  return watch_ && watch_->ends_job() ? stop_for_values() : PushResult::kAccepted;
}

// Of a sparse push: kAccepted, and `own` can be added, or what is wrong with it.
PushResult Shard::look_at(const Push& push, std::uint32_t elements, Contribution& own) {
  if (push.bytes == 0) {
    if (push.staged) staging_.give(push.data);
    return PushResult::kBadCount;
  }
  if (!push.staged) {  // who shares it could change it after the look
    if (staging_.free() < 2) return PushResult::kDuplicate;
    own.data = staging_.take();
    own.staged = true;
    std::memcpy(own.data, push.data, push.bytes);
  }
  const auto parsed = wire::parse_sparse({own.data, push.bytes}, parameters_.wire_type(), elements);
  if (parsed.fault != wire::SparseFault::kNone) staging_.give(own.data);
  return result_of(parsed.fault);
}

// The last push of a round of a job of one rack that is not plain. A deferred update comes later.
PushResult Shard::finish_own(std::uint32_t slot) {
  const bool compares = sparse_replies_ && !deferred_;
  const ChunkPlace& place = chunks_[slot].place;
  if (compares) sparse_replies_->begin(parameters_.published(place));
  const PushResult result = watch_ ? finish_looking(slot) : finish(slot);
  if (compares) sparse_replies_->end(slot, place.home, parameters_.published(place));
  return result;
}

// The last push of a round that ends here.
PushResult Shard::finish(std::uint32_t slot) {
  if (deferred_) return defer(slot);
  update(slot);
  return PushResult::kCompleted;
}

VoteOutcome Shard::vote(std::uint32_t worker, const Vote& vote) {
  if (stopped_) return VoteOutcome::kStopped;
  if (!deferred_ || !deferred_->votes()) return VoteOutcome::kUnasked;
  const VoteOutcome outcome = count_vote(worker, vote);
  const bool counts = outcome == VoteOutcome::kAccepted || outcome == VoteOutcome::kUpdatesDue;
  if (watch_ && counts && worker < workers_ && vote.overflow == 1) watch_->on_overflow_vote(worker);
  return outcome;
}

VoteOutcome Shard::count_vote(std::uint32_t worker, const Vote& vote) {
  if (racks_ && racks_->is_worker(worker)) {
    const VoteOutcome outcome = racks_->vote(worker, vote);
    if (outcome != VoteOutcome::kAccepted) return outcome;
  }
  if (racks_ && racks_->roots() == 0) return VoteOutcome::kAccepted;  // others count it
  return deferred_->vote(worker, vote);
}

// The first round of a rule with parameters: the leader's push is the initial value. Where the root
// is elsewhere it goes up as it is.
PushResult Shard::initialise(const Push& arrived, ShardChunk& chunk) {
  Push push = arrived;
  if (checks_) {
    const PushResult seen = check(push, chunk);
    if (seen != PushResult::kAccepted) return seen;
  }
  const bool goes_up = racks_ && !racks_->is_root(chunk);
  const bool is_worker = push.worker < workers_;
  if (push.worker == chunk.leader) {
    chunk.hyper = *push.hyper;
    if (rounds_) rounds_->hypers.begin(push.slot, push.worker, *push.hyper);
  }
  if (push.worker == chunk.leader && !restored_) {
    const DataType type = is_worker ? parameters_.wire_type() : DataType::kFloat32;
    if (watch_ && is_worker) {
      watch_->look_at({push.slot, push.worker}, {push.data, type}, chunk.place.elements);
      if (watch_->ends_job()) {
        if (push.staged) staging_.give(push.data);
        return stop_for_values();
      }
    }
    if (goes_up) {
      kernels::convert(racks_->outgoing(chunk), DataType::kFloat32, push.data, type,
                       chunk.place.elements);
    } else {
      parameters_.set(chunk.place, push.data, type);
      parameters_.begin_average(chunk.place);
    }
  }
  if (push.staged) staging_.give(push.data);
  const bool are_all_workers = racks_ && is_worker && racks_->is_last_worker(push.slot);
  const std::uint32_t members = workers_ + (racks_ ? chunk.sum.members - 1 : 0);
  if (++chunk.sum.pushes < members) {
    return are_all_workers ? PushResult::kGathered : PushResult::kAccepted;
  }
  chunk.sum.clear();
  if (goes_up) {
    begin_above(chunk);
    return PushResult::kGoesUp;
  }
  parameters_.publish(chunk.place);
  if (deferred_) deferred_->on_initialised(chunk);
  chunk.initialised = true;
  complete(push.slot);
  return PushResult::kCompleted;
}

// Its sum is there.
PushResult Shard::defer(std::uint32_t slot) {
  sums_.merge(slot, chunks_[slot].sum, chunks_[slot].place.elements);
  return on_summed(slot);
}

PushResult Shard::on_summed(std::uint32_t slot) {
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

// A copy has the state that its parameters go with.
bool Shard::prepare_due() {
  const auto slot = deferred_->next_to_direct();
  if (!slot) return false;
  copying.copy_if_due(chunks_[*slot]);
  chunks_[*slot].is_ahead = true;
  deferred_->direct(*slot);
  return true;
}

std::uint32_t Shard::update_due() {
  while (prepare_due()) {
  }
  const std::uint32_t slot = deferred_->take_due();
  update_deferred(slot);
  return slot;
}

void Shard::update_deferred(std::uint32_t slot) {
  ShardChunk& chunk = chunks_[slot];
  copying.copy_if_due(chunk);
  const bool is_left_out = deferred_->leaves_out_round();
  if (sparse_replies_) sparse_replies_->begin(parameters_.published(chunk.place));
  chunk.skipped = !deferred_->update(slot);
  if (sparse_replies_) {
    sparse_replies_->end(slot, chunk.place.home, parameters_.published(chunk.place));
  }
  chunk.is_ahead = false;
  if (is_left_out) ++chunk.left_out;
  complete(slot);
}

void Shard::update(std::uint32_t slot) {
  ShardChunk& chunk = chunks_[slot];
  copying.copy_if_due(chunk);
  parameters_.begin_update(chunk);
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
  const std::uint32_t pushes = chunk.sum.pushes;
  sums_.clear(slot, chunk.sum);
  if (chunk.rounds == 0 && !restored_) elements_touched.add(chunk.place.elements);
  ++chunk.rounds;
  ChunkParameters::end_rest(chunk);
  rounds_ ? end_quorum_round(slot, pushes) : arrived_.clear(slot);
  copying.copy_if_due(chunk);
  chunks_completed.add(1);
}

// No pushes: it was the first round, of initial parameters.
void Shard::end_quorum_round(std::uint32_t slot, std::uint32_t pushes) {
  const std::uint64_t rounds = chunks_[slot].rounds;
  if (pushes == 0) return rounds_->start_all(slot, rounds);
  rounds_->complete(slot, pushes);
  rounds_->release(slot, rounds);
}

}  // namespace phub::server
