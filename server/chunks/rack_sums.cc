#include "server/chunks/rack_sums.h"

#include <cmath>
#include <utility>

namespace phub::server {

RackSums::RackSums(const JobLayout& layout, std::uint32_t core, std::size_t chunks,
                   std::shared_ptr<JobMemory> memory, BufferPool& staging)
    : memory_(std::move(memory)),
      place_(layout.rack),
      core_(core),
      workers_(layout.workers),
      type_(layout.rack_wire_type),
      staging_(staging),
      sums_({.most = layout.workers, .type = layout.wire_type, .in_order = layout.deterministic},
            chunks, staging),
      first_(chunks, ChunkSum{.members = layout.workers}),
      votes_(layout.workers, 1, 0) {
  for (std::uint32_t tree = 0; tree < place_.trees(); ++tree) {
    for (std::uint32_t rack = 0; rack < place_.racks(); ++rack) {
      positions_.push_back(place_.position(tree, rack));
    }
    members_.push_back(place_.members(tree));
    const std::uint32_t leader = place_.leader(tree);
    const bool is_other = leader != place_.own() && leader != RackTree::kNone;
    leader_seat_.push_back(is_other ? place_.seat_of(leader, workers_)
                                    : (leader == place_.own() ? 0 : RackTree::kNone));
  }
}

void RackSums::add(std::uint32_t tree, ShardChunk& chunk) {
  chunk.tree = tree;
  chunk.leader = leader_seat_[tree];
  chunk.sum.members = members_[tree];
  if (place_.is_root(tree)) ++roots_;
}

std::byte* RackSums::add(const Push& push, const ShardChunk& chunk) {
  ChunkSum& sum = first_[push.slot];
  const std::uint32_t elements = chunk.place.elements;
  const Contribution own = {.data = push.data, .staged = push.staged};
  sums_.note(push.slot, push.worker, sum);
  if (!sums_.add(push.slot, push.worker, own, sum, elements)) return nullptr;
  sums_.merge(push.slot, sum, elements);
  std::byte* const data = sum.data;  // it goes on as a push of the second sum
  sum.clear();
  return data;
}

Contribution RackSums::widened(const Push& push, const ShardChunk& chunk) const {
  if (type_ == DataType::kFloat32) return {push.data, push.staged};
  std::byte* const wide = staging_.take();
  kernels::convert(wide, DataType::kFloat32, push.data, type_, chunk.place.elements);
  if (push.staged) staging_.give(push.data);
  return {wide, true};
}

void RackSums::round(const ShardChunk& chunk, float* sum, std::span<const float> rest,
                     std::span<float> next) const {
  const std::size_t elements = chunk.place.elements;
  for (std::size_t i = 0; i < elements; ++i) sum[i] += rest[i];
  kernels::convert(outgoing(chunk), type_, reinterpret_cast<const std::byte*>(sum),
                   DataType::kFloat32, elements);
  kernels::convert(reinterpret_cast<std::byte*>(next.data()), DataType::kFloat32, outgoing(chunk),
                   type_, elements);
  for (std::size_t i = 0; i < elements; ++i) {
    const float left = sum[i] - next[i];
    next[i] = std::isfinite(left) ? left : 0.0F;
  }
}

Vote RackSums::take_vote() {
  const Vote vote{.loss_scale = votes_.loss_scale(), .overflow = votes_.are_against() ? 1U : 0U};
  votes_.end_chunk();
  return vote;
}

}  // namespace phub::server
