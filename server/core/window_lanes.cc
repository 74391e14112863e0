#include "server/core/window_lanes.h"

#include "common/protocol/wire.h"

namespace phub::server {

std::byte* WindowLane::acquire(transport::PeerId peer, std::uint32_t immediate,
                               std::uint32_t bytes) {
  const Connection& connection = *connections[peer];
  if (connection.role == PeerRole::kRackAbove) return place_of_reply(connection, immediate, bytes);
  const WindowLayout& layout = *connection.window_layout;
  const std::uint32_t slot = wire::slot_of(immediate);
  if (wire::is_control(slot)) {
    const bool is_right = bytes == wire::word_bytes(slot);
    return is_right ? connection.window + wire::offset_in_line(slot) : nullptr;
  }
  // A device says how much was written, not where: what a worker puts beside its place is in its
  // own window, and harms its own gradients only. A notice says where, and the endpoint compares.
  // The shard looks at the length.
  if (slot >= layout.slots.size()) return nullptr;
  return connection.window + layout.slots[slot];
}

// Over verbs it has been written to its place; over shm it is in the other server's memory, which
// has the same chunks in the same order.
std::byte* WindowLane::place_of_reply(const Connection& connection, std::uint32_t immediate,
                                      std::uint32_t bytes) {
  Shard& shard = connection.job->shard;
  const std::uint32_t slot = wire::reply_slot_of(immediate);
  if (shard.exchange->compresses()) {
    if (!shard.rack_rounds->is_due(connection.worker, slot, bytes)) return nullptr;
    std::byte* const sums = connection.window == nullptr
                                ? shard.updates.parameters.memory()->rack_sums->data()
                                : connection.window;
    return sums + shard.exchange->reply_offset(slot);
  }
  std::byte* const place = shard.rack_rounds->place_of_reply(connection.worker, slot, bytes);
  if (place == nullptr || connection.window == nullptr) return place;
  return connection.window + shard.updates.replies.offset_here(slot);
}

Result<std::unique_ptr<ShmLane>> ShmLane::create(std::uint32_t max_connections) {
  std::unique_ptr<ShmLane> lane(new ShmLane(max_connections));
  PHUB_ASSIGN_OR_RETURN(lane->shm_, transport::ShmEndpoint::create(max_connections, lane.get()));
  lane->endpoint_ = lane->shm_.get();
  return lane;
}

Result<std::unique_ptr<VerbsLane>> VerbsLane::create(
    std::uint32_t max_connections, std::shared_ptr<const transport::verbs::OpenDevice> device) {
  std::unique_ptr<VerbsLane> lane(new VerbsLane(max_connections));
  PHUB_ASSIGN_OR_RETURN(lane->verbs_, transport::VerbsEndpoint::create(
                                          std::move(device), max_connections, *lane, *lane));
  lane->endpoint_ = lane->verbs_.get();
  return lane;
}

// Of a job that has other servers too: the worker's parameters are at the plan's offsets, ours are
// not. What goes up lands in a window of the other server.
std::uint64_t VerbsLane::offset(transport::PeerId peer, const transport::Write& write) const {
  const Connection& connection = *connections[peer];
  const std::uint32_t slot = wire::slot_of(write.immediate);
  if (connection.role != PeerRole::kRackAbove) {
    const Shard& shard = connection.job->shard;
    if (slot == wire::kNormSlot) return shard.updates.gate()->words()->landing();
    const std::uint32_t chunk = wire::reply_slot_of(write.immediate);
    const ChunkReplies& replies = shard.updates.replies;
    const bool is_whole = !connection.sparse_replies || write.bytes == shard.push_bytes(chunk);
    return is_whole ? replies.offset(chunk) : replies.changes_offset(chunk);
  }
  return wire::is_control(slot) ? wire::offset_in_line(slot)
                                : connection.window_layout->slots[slot];
}

void VerbsLane::destroy_ended(CoreThread& thread) {
  const auto deadline =
      std::chrono::steady_clock::now() + 2 * transport::verbs::Departures::kLongest;
  std::size_t leaving = 1;
  while (leaving > 0 && std::chrono::steady_clock::now() < deadline) {
    std::vector<transport::VerbsConnection> ended;
    ended.reserve(connections.size());
    thread.call([&] {
      leaving = verbs_->leaving();
      verbs_->take_ended(ended);
    });
    if (leaving > 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

}  // namespace phub::server
