// What goes wrong in a job of the simulation: connections that are cut, and what no member sends.
#include <algorithm>
#include <limits>

#include "tests/simulation/racks_job.h"

namespace phub::simulation {
namespace {

using server::Drop;

template <typename Words>
std::vector<std::byte> control(std::uint32_t slot, std::uint32_t epoch, const Words& words) {
  return bytes_of(wire::immediate(slot, epoch), std::as_bytes(std::span(&words, 1)));
}

// Nothing of it is looked at but its length.
std::vector<std::byte> chunk(std::uint32_t slot, std::uint32_t epoch, std::uint64_t bytes) {
  return bytes_of(wire::immediate(slot, epoch), std::vector<std::byte>(bytes));
}

std::vector<std::byte> out_of_step() {
  std::vector<std::byte> frame = chunk(0, 0, 64);
  frame[0] ^= std::byte{1};
  return frame;
}

// Whether worker 0's words come to `above` from `below`, for some tree.
bool leads(const std::vector<RackTree>& trees, std::uint32_t below, std::uint32_t above) {
  return std::any_of(trees.begin(), trees.end(), [&](const RackTree& tree) {
    std::uint32_t rack = 0;
    while (rack != below && rack != RackTree::kNone) rack = tree.parent[rack];
    return rack == below && tree.parent[below] == above;
  });
}

}  // namespace

void RacksJob::harm() {
  if (!streams_.empty() && random_.one_in(2)) {
    RackStream& stream = *streams_[random_.below(static_cast<std::uint32_t>(streams_.size()))];
    switch (random_.below(5)) {
      case 0:
        return stream.cut();
      case 1:
      case 2:
        return forge_to_above(stream);
      default:
        return forge_to_below(stream);
    }
  }
  Rack& rack = racks_[random_.below(racks())];
  Worker& worker = rack.workers[random_.below(static_cast<std::uint32_t>(rack.workers.size()))];
  if (worker.dead) return;
  if (!votes() && random_.one_in(3)) {
    const Vote vote;
    worker.end->send_later(control(wire::kVoteSlot, rack.layout.epoch, vote));
    // More messages than a round has may be there before the first one is looked at.
    if (worker.causes.has(Drop::kBadVote)) worker.causes.add(Drop::kDuplicatePush);
    worker.causes.add(Drop::kBadVote);
    return;
  }
  worker.end->close();
  worker.dead = true;
}

// From a rack to the one above it: sums, hyper-parameters and votes.
void RacksJob::forge_to_above(RackStream& stream) {
  constexpr auto kTo = RackStream::kAbove;
  const auto& [below, above, count, rounds] = stream.way();
  const std::uint32_t of = epoch(above);
  const std::uint32_t slot = random_.below(count);
  const Chunk& place = plan_->chunks[slot];
  const std::uint64_t bytes = place.elements * sizeof(float);
  const bool may_be_narrow = options_.rack_wire_type != DataType::kFloat32;
  Hyper hyper = racks_[0].layout.hyper;
  switch (random_.below(9)) {
    case 0:
      return stream.forge(kTo, out_of_step(), Drop::kBadFrame);
    case 1:  // of a wrong length
      return stream.forge(kTo, chunk(slot, of, bytes + 4 * random_.between(1, 9)),
                          Drop::kBadLength);
    case 2:  // of no chunk
      return stream.forge(kTo, chunk(count + random_.below(3), of, bytes), Drop::kBadLength);
    case 3:  // of a chunk that goes another way
      if (may_be_narrow || trees_[place.tree].is_below(below, above)) return;
      return stream.forge(kTo, chunk(slot, of, bytes), Drop::kUnknownChunk);
    case 4:
      return stream.repeat(kTo);
    case 5:
      return stream.send_stale(kTo);
    case 6:
      hyper.gradient_scale = std::numeric_limits<float>::quiet_NaN();
      return stream.forge(kTo, control(wire::kHyperSlot, of, hyper), Drop::kBadHyper);
    case 7:  // not this rack's to say: nobody minds
      hyper.learning_rate = 77.0F;
      if (leads(trees_, below, above)) return;
      return stream.forge(kTo, control(wire::kHyperSlot, of, hyper), Drop::kCount);
    default:
      break;
  }
  Vote vote;
  if (votes()) vote.loss_scale = std::numeric_limits<float>::quiet_NaN();
  const auto roots_there = [&, rack = above](const Chunk& each) {
    return trees_[each.tree].parent[rack] == RackTree::kNone;
  };
  const bool has_roots = std::any_of(plan_->chunks.begin(), plan_->chunks.end(), roots_there);
  if (votes() && !has_roots) return;  // others count it
  stream.forge(kTo, control(wire::kVoteSlot, of, vote), Drop::kBadVote);
}

// From a rack to one below it: replies.
void RacksJob::forge_to_below(RackStream& stream) {
  constexpr auto kTo = RackStream::kBelow;
  const auto& [below, above, count, rounds] = stream.way();
  const std::uint32_t of = epoch(above);
  const std::uint32_t slot = random_.below(count);
  const Chunk& place = plan_->chunks[slot];
  const std::uint64_t bytes = place.elements * size_of(options_.wire_type);
  switch (random_.below(7)) {
    case 0:
      return stream.forge(kTo, out_of_step(), Drop::kBadFrame);
    case 1:
      if (options_.compresses) return;  // it may be a sum
      return stream.forge(kTo, chunk(slot, of, bytes + 2 * random_.between(1, 9)),
                          Drop::kBadLength);
    case 2:
      return stream.forge(kTo, chunk(count + random_.below(3), of, bytes), Drop::kBadLength);
    case 3:  // to what was not pushed there
      if (trees_[place.tree].is_below(below, above)) return;
      return stream.forge(kTo, chunk(slot, of, bytes), Drop::kBadLength);
    case 4:
      return stream.repeat(kTo);
    case 5:
      return stream.send_stale(kTo);
    default:
      return stream.forge(kTo, control(wire::kHyperSlot, of, racks_[0].layout.hyper),
                          Drop::kBadLength);
  }
}

}  // namespace phub::simulation
