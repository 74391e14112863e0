// What a shard does in a job of several racks: sums of racks, up and down their trees.
#include <array>
#include <cstring>

#include "common/base/check.h"
#include "server/chunks/shard.h"

namespace phub::server {

// Of a job of several racks.
PushResult Shard::add(const Push& push, ShardChunk& chunk) {
  if (push.worker == chunk.leader) chunk.hyper = *push.hyper;
  const bool is_worker = racks_->is_worker(push.worker);
  Contribution sum;
  if (is_worker) {
    sum = {.data = racks_->add(push, chunk), .staged = true};
  } else if (compression_) {
    const PushResult seen = read_sum(push, chunk, sum);
    if (seen != PushResult::kAccepted) return seen;
  } else {
    sum = racks_->widened(push, chunk);
  }
  if (watch_ && watch_->ends_job()) return stop_for_values();
  if (sum.data == nullptr) return PushResult::kAccepted;
  if (is_worker && compression_) keep_back(push.slot, sum.data);
  if (!sums_.add(push.slot, racks_->position(push.worker, chunk), sum, chunk.sum,
                 chunk.place.elements)) {
    return is_worker ? PushResult::kGathered : PushResult::kAccepted;
  }
  if (!racks_->is_root(chunk)) return go_up(push.slot);
  return compression_ ? finish_combined(push.slot) : finish(push.slot);
}

// Of another rack's sum as it travels: kAccepted, and `sum` has all of its elements, or what is
// wrong with it. The push's buffer is given back. Racks that are joined so push by tcp alone.
PushResult Shard::read_sum(const Push& push, const ShardChunk& chunk, Contribution& sum) {
  PHUB_DCHECK(push.staged, "a rack's sum by tcp");
  sum = {.data = staging_.take(), .staged = true};
  auto* const wide = reinterpret_cast<float*>(sum.data);
  const auto fault = RackCompression::read({push.data, push.bytes}, {wide, chunk.place.elements});
  staging_.give(push.data);
  if (fault != wire::SparseFault::kNone) staging_.give(sum.data);
  return result_of(fault);
}

void Shard::keep_back(std::uint32_t slot, std::byte* sum) {
  if (!compression_->keeps_back(slot)) return;
  ShardChunk& chunk = chunks_[slot];
  compression_->keep_back({reinterpret_cast<float*>(sum), chunk.place.elements},
                          parameters_.rack_rest(chunk), parameters_.next_rack_rest(chunk),
                          chunk.rounds);
}

// The last push of a round that ends here: all racks' sum goes down, and here the rule is applied.
PushResult Shard::finish_combined(std::uint32_t slot) {
  ShardChunk& chunk = chunks_[slot];
  sums_.merge(slot, chunk.sum, chunk.place.elements);
  compression_->write_down(slot, chunk.hyper, summed(chunk));
  update(slot);
  return PushResult::kCompleted;
}

// Leaves the sum where it is sent from.
PushResult Shard::go_up(std::uint32_t slot) {
  ShardChunk& chunk = chunks_[slot];
  if (compression_) {
    sums_.merge(slot, chunk.sum, chunk.place.elements);
    compression_->write_up(slot, summed(chunk));
  } else if (racks_->type() != DataType::kFloat32) {
    sums_.merge(slot, chunk.sum, chunk.place.elements);
    racks_->round(chunk, reinterpret_cast<float*>(chunk.sum.data), parameters_.rack_rest(chunk),
                  parameters_.next_rack_rest(chunk));
  } else {
    std::array<kernels::Source, kernels::kMaxSources> sources;  // NOLINT(*-member-init): filled
    const std::size_t count = sums_.sources(slot, chunk.sum, 0, sources);
    kernels::update({.sources = {sources.data(), count},
                     .elements = chunk.place.elements,
                     .parameters = reinterpret_cast<float*>(racks_->outgoing(chunk))});
  }
  sums_.clear(slot, chunk.sum);
  begin_above(chunk);
  return PushResult::kGoesUp;
}

// The rack above may reply from now on. A device writes the reply without a word to this core.
void Shard::begin_above(ShardChunk& chunk) {
  chunk.is_above = true;
  if (replies_land_unseen) begin_landing(chunk);
}

// From now on the parameters may be the reply's, in part.
void Shard::begin_landing(ShardChunk& chunk) {
  copying.copy_if_due(chunk);
  chunk.is_ahead = true;
}

// Initial parameters cross as they are.
std::uint32_t Shard::rack_bytes(std::uint32_t slot) const {
  if (slot >= chunks_.size() || !racks_) return 0;
  const ShardChunk& chunk = chunks_[slot];
  const DataType type = is_initial(chunk) ? DataType::kFloat32 : racks_->type();
  return static_cast<std::uint32_t>(chunk.place.elements * size_of(type));
}

bool Shard::may_push_sum(std::uint32_t slot, std::uint32_t bytes) const {
  const std::uint32_t whole = rack_bytes(slot);
  return bytes == whole || (bytes < whole && combines(chunks_[slot]));
}

std::span<const std::byte> Shard::sum_for_above(std::uint32_t slot) const {
  if (combines(chunks_[slot])) return compression_->outgoing(slot);
  return {racks_->outgoing(chunks_[slot]), rack_bytes(slot)};
}

std::span<const std::byte> Shard::reply_below(std::uint32_t slot) const {
  const auto sum = compression_->outgoing(slot);
  return sum.empty() ? reply(slot) : sum;
}

std::byte* Shard::place_of_reply(std::uint32_t seat, std::uint32_t slot, std::uint32_t bytes) {
  if (slot >= chunks_.size()) return nullptr;
  ShardChunk& chunk = chunks_[slot];
  if (!chunk.is_above || !racks_->is_above(seat, chunk)) return nullptr;
  if (combines(chunk)) return may_combine(chunk, bytes) ? staging_.take_for_push() : nullptr;
  if (bytes != push_bytes(slot)) return nullptr;
  begin_landing(chunk);
  return parameters_.landing(chunk.place);
}

// A Hyper, then a sum.
bool Shard::may_combine(const ShardChunk& chunk, std::size_t bytes) const {
  return bytes > sizeof(Hyper) &&
         RackCompression::may_be(bytes - sizeof(Hyper), chunk.place.elements);
}

PushResult Shard::take_reply(std::uint32_t slot, std::span<const std::byte> data, bool is_skipped) {
  if (staging_.owns(data.data())) {
    const PushResult taken = take_combined(slot, data);
    staging_.give(const_cast<std::byte*>(data.data()));  // place_of_reply took it
    return taken;
  }
  if (stopped_) return PushResult::kStopped;
  if (slot >= chunks_.size()) return PushResult::kUnknownChunk;
  ShardChunk& chunk = chunks_[slot];
  if (data.size() != push_bytes(slot) || combines(chunk)) return PushResult::kBadLength;
  if (!chunk.is_above) return PushResult::kDuplicate;
  begin_landing(chunk);
  std::byte* const place = parameters_.landing(chunk.place);
  if (data.data() != place) std::memcpy(place, data.data(), data.size());
  chunk.initialised = true;
  chunk.skipped = is_skipped;
  // Where each rack applies the rule, a restored one has the masters that go with its state.
  if (!compression_ || !restored_) parameters_.adopt(chunk.place);
  chunk.is_above = false;
  chunk.is_ahead = false;
  complete(slot);
  return PushResult::kCompleted;
}

// All racks' sum, which this one's is in.
PushResult Shard::take_combined(std::uint32_t slot, std::span<const std::byte> reply) {
  if (stopped_) return PushResult::kStopped;
  ShardChunk& chunk = chunks_[slot];
  if (!chunk.is_above) return PushResult::kDuplicate;
  if (staging_.free() == 0) return PushResult::kDuplicate;
  Hyper hyper;
  std::memcpy(&hyper, reply.data(), sizeof(hyper));
  if (!makes_sense(hyper)) return PushResult::kBadHyper;
  std::byte* const wide = staging_.take();
  const auto fault = RackCompression::read(reply.subspan(sizeof(hyper)),
                                           {reinterpret_cast<float*>(wide), chunk.place.elements});
  if (fault != wire::SparseFault::kNone) {
    staging_.give(wide);
    return result_of(fault);
  }
  if (chunk.sum.members > 1) compression_->pass_down(slot, reply);
  chunk.is_above = false;
  chunk.hyper = hyper;
  chunk.sum.data = wide;
  chunk.sum.pushes = chunk.sum.folded = chunk.sum.members;
  update(slot);
  return PushResult::kCompleted;
}

}  // namespace phub::server
