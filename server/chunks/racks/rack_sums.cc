#include "server/chunks/racks/rack_sums.h"

namespace phub::server {

RackSums::RackSums(const JobLayout& layout, std::uint32_t core, std::span<ShardChunk> chunks,
                   WorkerReader& reader, BufferPool& staging)
    : place_(layout.rack),
      workers_(layout.workers),
      sums_({.most = layout.rack_local.is_on() ? 0 : layout.workers,
             .type = layout.wire_type,
             .in_order = layout.deterministic,
             .encoding = layout.encoding},
            chunks.size(), staging),
      first_(chunks.size(), ChunkSum{.members = layout.workers}),
      pushes_to_(place_.racks()),
      votes_(layout.workers, 1, 0) {
  if (!layout.rack_local.is_on()) reader.read_for(sums_);
  if (layout.rack_compress.is_on() && !layout.rack_local.is_on()) {
    scale_.is_voted = layout.loss_scale.kind == LossScaling::kVoted;
    scale_.is_known = !scale_.is_voted;
    scale_.factor = layout.loss_scale.factor;
    if (scale_.is_voted) {
      held_.reserve(chunks.size());
      gone_on_.resize(chunks.size());
    }
  }
  for (std::uint32_t tree = 0; tree < place_.trees(); ++tree) {
    for (std::uint32_t rack = 0; rack < place_.racks(); ++rack) {
      positions_.push_back(place_.position(tree, rack));
    }
  }
  const std::vector<std::uint32_t>& ids = layout.plan->core_chunks[layout.server_index][core];
  for (std::size_t slot = 0; slot < chunks.size(); ++slot) {
    ShardChunk& chunk = chunks[slot];
    chunk.tree = layout.plan->chunks[ids[slot]].tree;
    if (!layout.rack_local.is_on()) chunk.sum.members = place_.members(chunk.tree);
    if (chunk.is_root) {
      ++roots_;
    } else {
      pushes_to_[place_.above(chunk.tree)] = true;
    }
    const std::uint32_t leader = place_.leader(chunk.tree);
    const bool is_other = leader != place_.own() && leader != RackTree::kNone;
    chunk.leader = is_other ? place_.seat_of(leader, workers_)
                            : (leader == place_.own() ? 0 : RackTree::kNone);
  }
}

Contribution RackSums::take(std::uint32_t slot, const ShardChunk& chunk) {
  ChunkSum& sum = first_[slot];
  sums_.merge(slot, sum, chunk.place.elements);
  const Contribution all = {.data = sum.data, .staged = true};
  sum.clear();
  return all;
}

Vote RackSums::take_vote() {
  const Vote vote{.loss_scale = votes_.loss_scale(), .overflow = votes_.are_against() ? 1U : 0U};
  votes_.end_chunk();
  if (scale_.is_voted) {
    scale_.is_known = true;
    scale_.factor = vote.loss_scale;
  }
  return vote;
}

}  // namespace phub::server
