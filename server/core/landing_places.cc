#include "server/core/landing_places.h"

#include "common/protocol/wire.h"

namespace phub::server {

std::byte* LandingPlaces::acquire(transport::PeerId peer, std::uint32_t immediate,
                                  std::uint32_t bytes) {
  const Connection& connection = *connections_[peer];
  const WindowLayout& landing = *connection.landing;
  const std::uint32_t slot = wire::slot_of(immediate);
  if (slot == wire::kHyperSlot) {
    return bytes == sizeof(Hyper) ? connection.window + WindowLayout::kHyper : nullptr;
  }
  if (slot == wire::kVoteSlot) {
    return bytes == sizeof(Vote) ? connection.window + WindowLayout::kVote : nullptr;
  }
  // A device says how much was written, not where: what a worker puts beside its place is in its
  // own window, and harms its own gradients only. A notice says where, and the endpoint compares.
  // The shard looks at the length.
  if (slot >= landing.slots.size()) return nullptr;
  return connection.window + landing.slots[slot];
}

// Of a job that has other servers too: the worker's parameters are at the plan's offsets, ours are
// not.
std::uint64_t LandingPlaces::offset(transport::PeerId peer, std::uint32_t immediate) const {
  return connections_[peer]->job->shard.reply_offset(wire::reply_slot_of(immediate));
}

}  // namespace phub::server
