#include "server/chunks/pushes/worker_reader.h"

#include <cstring>

#include "kernels/quantise.h"

namespace phub::server {

WorkerReader::WorkerReader(const JobLayout& layout, std::uint32_t core,
                           const std::vector<ShardChunk>& chunks, const ChunkParameters& parameters,
                           BufferPool& staging)
    : chunks_(chunks),
      parameters_(parameters),
      staging_(staging),
      encoding_(layout.encoding),
      stays_in_place_(layout.rounds.waits_for_all() && encoding_ == Encoding::kDense &&
                      layout.workers <= kernels::kMaxSources),
      looks_at_once_(!layout.rounds.waits_for_all() || encoding_ != Encoding::kDense),
      unchecked_(layout.checksums ? 0 : static_cast<std::uint32_t>(chunks.size())) {
  if (layout.watch_values != WatchValues::kOff) watch_.emplace(layout, core, chunks);
  if (layout.checksums) checks_.emplace(layout, core, chunks);
}

void WorkerReader::read_for(PushSums& sums) {
  if (checks_) sums.know_workers();
  if (looks_at_sums()) sums.watch(*watch_);
}

bool WorkerReader::has_right_length(const Push& push, const ShardChunk& chunk) const {
  const std::uint32_t bytes =
      checks_ ? checks_->payload_bytes(push.worker, push.bytes) : push.bytes;
  return bytes == parameters_.bytes(chunk.place) || may_be_packed(bytes, chunk);
}

// Initial values are whole.
bool WorkerReader::may_be_packed(std::uint32_t bytes, const ShardChunk& chunk) const {
  if (encoding_ == Encoding::kDense || !chunk.initialised) return false;
  if (bytes >= parameters_.bytes(chunk.place)) return false;
  const kernels::Bits bits = kernels::bits_of(encoding_);
  return encoding_ == Encoding::kSparse ||
         bytes == kernels::quantised_bytes(chunk.place.elements, bits);
}

PushResult WorkerReader::read(Push& push, const ShardChunk& chunk, Contribution& own) {
  if (checks_) {
    const PushResult seen = check(push, chunk);
    if (seen != PushResult::kAccepted) return seen;
  }
  own = {.data = push.data, .staged = push.staged};
  own.packed = push.bytes != parameters_.bytes(chunk.place);
  if (own.packed && encoding_ == Encoding::kSparse) {
    const PushResult seen = parse(push, chunk.place.elements, own);
    if (seen != PushResult::kAccepted) return seen;
  }
  if (!watch_ || !looks_at_once_) return PushResult::kAccepted;
  look_at(push, own, chunk.place.elements);
  if (!watch_->ends_job()) return PushResult::kAccepted;
  if (own.staged) staging_.give(own.data);
  return PushResult::kForbidden;
}

PushResult WorkerReader::read_initial(Push& push, const ShardChunk& chunk, bool holds) {
  if (checks_) {
    const PushResult seen = check(push, chunk);
    if (seen != PushResult::kAccepted) return seen;
  }
  if (!watch_ || !holds) return PushResult::kAccepted;
  look_at(push, {.data = push.data}, chunk.place.elements);
  if (!watch_->ends_job()) return PushResult::kAccepted;
  if (push.staged) staging_.give(push.data);
  return PushResult::kForbidden;
}

// A push that stays where it is until the chunk's last one is compared then, when the sum is about
// to read it: each other one now, while it is hot.
PushResult WorkerReader::check(Push& push, const ShardChunk& chunk) {
  push.bytes = checks_->payload_bytes(push.worker, push.bytes);
  PushResult result = PushResult::kAccepted;
  if (push.bytes != parameters_.bytes(chunk.place) && !may_be_packed(push.bytes, chunk)) {
    result = PushResult::kBadLength;
  } else if (push.staged || !chunk.initialised || !stays_in_place_) {
    const bool is_right = checks_->check(push.worker, push.slot, {push.data, push.bytes});
    if (!is_right) result = PushResult::kCorrupt;
  }
  if (result != PushResult::kAccepted && push.staged) staging_.give(push.data);
  return result;
}

bool WorkerReader::read_rest(std::uint32_t slot, const PushSums& sums, const ChunkSum& sum) {
  if (!checks_ || !stays_in_place_) return true;
  const std::uint32_t bytes = parameters_.bytes(chunks_[slot].place);
  bool are_right = true;
  sums.for_each_in_place(slot, sum, [&](std::uint32_t worker, const std::byte* data) {
    are_right = checks_->check(worker, slot, {data, bytes}) && are_right;
  });
  return are_right;
}

// Reads a sparse push.
PushResult WorkerReader::parse(const Push& push, std::uint32_t elements, Contribution& own) {
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

void WorkerReader::look_at(const Push& push, const Contribution& own, std::size_t elements) {
  const ValueWatch::Pushed pushed{push.slot, push.worker};
  if (own.packed) return watch_->look_at_packed(pushed, own.data);
  watch_->look_at(pushed, {own.data, parameters_.wire_type()}, elements);
}

}  // namespace phub::server
