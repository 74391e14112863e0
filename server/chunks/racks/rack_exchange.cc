#include "server/chunks/racks/rack_exchange.h"

#include <array>
#include <cmath>
#include <cstring>

#include "common/base/check.h"

namespace phub::server {

RackExchange::RackExchange(const JobLayout& layout, std::uint32_t core,
                           std::vector<ShardChunk>& chunks, ChunkParameters& parameters,
                           BufferPool& staging)
    : memory_(parameters.memory()),
      core_(core),
      offsets_(memory_->rack_offsets(*layout.plan, layout.server_index, core)),
      type_(layout.rack_wire_type),
      leaves_out_(layout.loss_scale.kind == LossScaling::kVoted && !layout.rack_local.is_on()),
      is_local_(layout.rack_local.is_on()),
      is_restored_(layout.initial != nullptr),
      chunks_(chunks),
      parameters_(parameters),
      staging_(staging) {
  if (!combines_sums(layout)) return;
  std::vector<std::byte*> places;
  for (std::uint32_t slot = 0; slot < chunks.size(); ++slot) places.push_back(outgoing(slot));
  compression_.emplace(layout, core, places);
}

PushResult RackExchange::read(const Push& push, const ShardChunk& chunk, Contribution& sum) {
  if (!compression_ && type_ == DataType::kFloat32) {
    sum = {.data = push.data, .staged = push.staged};
    return PushResult::kAccepted;
  }
  auto fault = wire::SparseFault::kNone;
  if (compression_) {
    // The other rack could change an index in shared memory or a window after the check.
    if (!push.staged && staging_.free() < 2) return PushResult::kDuplicate;
    std::byte* const own = push.staged ? push.data : copy_of({push.data, push.bytes});
    sum = {.data = staging_.take(), .staged = true};
    auto* const wide = reinterpret_cast<float*>(sum.data);
    fault = RackCompression::read({own, push.bytes}, {wide, chunk.place.elements});
    staging_.give(own);
  } else {
    sum = {.data = staging_.take(), .staged = true};
    kernels::convert(sum.data, DataType::kFloat32, push.data, type_, chunk.place.elements);
    if (push.staged) staging_.give(push.data);
  }
  if (fault != wire::SparseFault::kNone) staging_.give(sum.data);
  return result_of(fault);
}

std::byte* RackExchange::copy_of(std::span<const std::byte> bytes) {
  std::byte* const copy = staging_.take();
  std::memcpy(copy, bytes.data(), bytes.size());
  return copy;
}

void RackExchange::prepare(std::uint32_t slot, std::byte* sum, float loss_scale) {
  if (!compression_) return;
  ShardChunk& chunk = chunks_[slot];
  if (loss_scale != 1.0F) {
    const kernels::Source source{sum, DataType::kFloat32};
    kernels::update({.sources = {&source, 1},
                     .elements = chunk.place.elements,
                     .rule = RuleKind::kMean,
                     .hyper = {.gradient_scale = 1.0F / loss_scale},
                     .parameters = reinterpret_cast<float*>(sum)});
  }
  if (!compression_->keeps_back(slot)) return;
  compression_->keep_back({reinterpret_cast<float*>(sum), chunk.place.elements},
                          parameters_.residuals.of(chunk), parameters_.residuals.next(chunk),
                          chunk.rounds);
}

void RackExchange::write_up(std::uint32_t slot, ChunkSum& sum, PushSums& sums) {
  ShardChunk& chunk = chunks_[slot];
  if (compression_) {
    sums.merge(slot, sum, chunk.place.elements);
    const auto* const values = reinterpret_cast<const float*>(sum.data);
    compression_->write_up(slot, {values, chunk.place.elements});
  } else if (type_ != DataType::kFloat32) {
    sums.merge(slot, sum, chunk.place.elements);
    round(slot, reinterpret_cast<float*>(sum.data), parameters_.residuals.of(chunk),
          parameters_.residuals.next(chunk));
  } else {
    std::array<kernels::Source, kernels::kMaxSources> sources;  // NOLINT(*-member-init): filled
    const std::size_t count = sums.sources(slot, sum, 0, sources);
    kernels::update({.sources = {sources.data(), count},
                     .elements = chunk.place.elements,
                     .parameters = reinterpret_cast<float*>(outgoing(slot))});
  }
  sums.clear(slot, sum);
}

void RackExchange::write_initial(std::uint32_t slot, kernels::Source values) {
  const ShardChunk& chunk = chunks_[slot];
  kernels::convert(outgoing(slot), DataType::kFloat32, values.data, values.type,
                   chunk.place.elements);
}

// Adds `rest`, the residual of the rounds before, to the sum, and rounds it to what goes up. Keeps
// what is left now in `next`, so that nothing is lost over the rounds. What is not finite leaves
// nothing.
void RackExchange::round(std::uint32_t slot, float* sum, std::span<const float> rest,
                         std::span<float> next) const {
  const std::size_t elements = chunks_[slot].place.elements;
  for (std::size_t i = 0; i < elements; ++i) sum[i] += rest[i];
  kernels::convert(outgoing(slot), type_, reinterpret_cast<const std::byte*>(sum),
                   DataType::kFloat32, elements);
  kernels::convert(reinterpret_cast<std::byte*>(next.data()), DataType::kFloat32, outgoing(slot),
                   type_, elements);
  for (std::size_t i = 0; i < elements; ++i) {
    const float left = sum[i] - next[i];
    next[i] = std::isfinite(left) ? left : 0.0F;
  }
}

std::span<const std::byte> RackExchange::sum_to_push(std::uint32_t slot) const {
  const ShardChunk& chunk = chunks_[slot];
  if (combines(chunk)) {
    // Initial parameters are no compressed sum: they go up as they are.
    const std::span<const std::byte> sum = compression_->outgoing(slot);
    if (!sum.empty()) return sum;
  }
  return {outgoing(slot), sum_bytes(chunk)};
}

PushResult RackExchange::read_reply(std::uint32_t slot, std::span<const std::byte> reply,
                                    bool goes_on) {
  ShardChunk& chunk = chunks_[slot];
  if (staging_.free() == 0) return PushResult::kDuplicate;
  Hyper hyper;
  std::memcpy(&hyper, reply.data(), sizeof(hyper));
  if (!makes_sense(hyper)) return PushResult::kBadHyper;
  const auto some = reply.subspan(sizeof(hyper));
  std::byte* const wide = some.empty() ? nullptr : staging_.take();
  if (wide != nullptr) {
    const auto fault =
        RackCompression::read(some, {reinterpret_cast<float*>(wide), chunk.place.elements});
    if (fault != wire::SparseFault::kNone) {
      staging_.give(wide);
      return result_of(fault);
    }
  }
  if (goes_on) compression_->pass_down(slot, reply);
  chunk.hyper = hyper;
  chunk.sum.data = wide;
  chunk.sum.pushes = chunk.sum.folded = chunk.sum.members;
  return PushResult::kAccepted;
}

}  // namespace phub::server
