#include "common/exchange/exchange.h"

#include <algorithm>
#include <cstring>

namespace phub::client {

using transport::Completion;
using transport::CompletionKind;
using transport::Write;

namespace {
constexpr std::size_t kWritesPerPost = 64;
constexpr std::uint32_t kNever = 1U << 30;  // more arrivals than a ring can hold
}  // namespace

Exchange::Exchange(std::shared_ptr<const Plan> plan, DataType wire_type, bool leader)
    : plan_(std::move(plan)),
      element_bytes_(size_of(wire_type)),
      leader_(leader),
      chunks_(plan_->chunks.size()),
      keys_(plan_->key_offset.size()) {
  for (std::size_t i = 0; i < chunks_.size(); ++i) {
    chunks_[i].missing = plan_->chunks[i].segment_count;
  }
}

Result<std::unique_ptr<Exchange>> Exchange::create(std::shared_ptr<const Plan> plan,
                                                   DataType wire_type, bool leader) {
  std::uint32_t connections = 0;
  for (const auto& cores : plan->core_chunks) {
    connections += static_cast<std::uint32_t>(cores.size());
  }
  std::unique_ptr<Exchange> exchange(new Exchange(std::move(plan), wire_type, leader));
  PHUB_ASSIGN_OR_RETURN(exchange->tcp_,
                        transport::TcpEndpoint::create({.max_peers = connections}, *exchange));
  PHUB_ASSIGN_OR_RETURN(exchange->shm_, transport::ShmEndpoint::create(connections));
  exchange->by_tcp_peer_.resize(connections);
  exchange->by_shm_peer_.resize(connections);
  exchange->connections_.reserve(connections);
  return exchange;
}

Exchange::Connection& Exchange::add(std::uint32_t server, std::uint32_t core, std::uint32_t epoch) {
  const auto index = static_cast<std::uint32_t>(connections_.size());
  Connection& connection = connections_.emplace_back();
  connection.server = server;
  connection.core = core;
  connection.epoch = epoch;
  connection.chunks = &plan_->core_chunks[server][core];
  connection.pending =
      std::make_unique<PrioritySet>(static_cast<std::uint32_t>(connection.chunks->size()));
  for (const std::uint32_t chunk : *connection.chunks) chunks_[chunk].connection = index;
  return connection;
}

Status Exchange::connect_tcp(std::uint32_t server, std::uint32_t core, std::uint32_t epoch,
                             transport::TcpStream stream) {
  PHUB_ASSIGN_OR_RETURN(const transport::PeerId peer, tcp_->add(std::move(stream)));
  by_tcp_peer_[peer] = static_cast<std::uint32_t>(connections_.size());
  Connection& connection = add(server, core, epoch);
  connection.endpoint = tcp_.get();
  connection.peer = peer;
  return {};
}

Status Exchange::connect_shm(std::uint32_t server, std::uint32_t core, std::uint32_t epoch,
                             transport::ShmConnection shm_connection) {
  PHUB_ASSIGN_OR_RETURN(const transport::PeerId peer, shm_->add(std::move(shm_connection)));
  by_shm_peer_[peer] = static_cast<std::uint32_t>(connections_.size());
  Connection& connection = add(server, core, epoch);
  connection.endpoint = shm_.get();
  connection.peer = peer;
  return {};
}

void Exchange::start(KeyId key) {
  KeyState& state = keys_[key];
  state.remaining = plan_->chunk_count[key];
  state.skipped = false;
  ++outstanding_;
  const std::uint32_t first = plan_->first_chunk[key];
  for (std::uint32_t id = first; id < first + state.remaining; ++id) {
    ChunkState& chunk = chunks_[id];
    if (--chunk.missing > 0) continue;
    chunk.outstanding = true;
    Connection& connection = connections_[chunk.connection];
    connection.pending->insert(plan_->chunks[id].slot);
    connection.outstanding.add(bytes_of(plan_->chunks[id]));
  }
}

void Exchange::set_hyper(const Hyper& hyper) {
  hyper_ = hyper;
  if (leader_) ++hyper_version_;
}

void Exchange::vote(const Vote& vote) {
  for (std::size_t index = 0; index < connections_.size(); ++index) {
    if (connections_[index].chunks->empty()) continue;
    std::memcpy(memory_.hyper + index * wire::kHyperStride + wire::kVoteOffset, &vote,
                sizeof(vote));
    connections_[index].owes_vote = true;
  }
}

void Exchange::send_vote(Connection& connection, std::uint32_t index) {
  const Write write{.data = memory_.hyper + index * wire::kHyperStride + wire::kVoteOffset,
                    .bytes = sizeof(Vote),
                    .immediate = wire::immediate(wire::kVoteSlot, connection.epoch)};
  connection.owes_vote = connection.endpoint->post(connection.peer, {&write, 1}) == 0;
}

bool Exchange::send_hyper(Connection& connection, std::uint32_t index) {
  if (connection.hyper_version == hyper_version_) return true;
  std::byte* slot = memory_.hyper + index * wire::kHyperStride;
  std::memcpy(slot, &hyper_, sizeof(hyper_));
  const Write write{.data = slot,
                    .bytes = sizeof(hyper_),
                    .immediate = wire::immediate(wire::kHyperSlot, connection.epoch)};
  if (connection.endpoint->post(connection.peer, {&write, 1}) == 0) return false;
  connection.hyper_version = hyper_version_;
  return true;
}

void Exchange::send(std::uint32_t index) {
  Connection& connection = connections_[index];
  if (connection.owes_vote) send_vote(connection, index);
  if (!connection.pending->empty() && !send_hyper(connection, index)) return;
  std::array<Write, kWritesPerPost> writes;  // NOLINT(*-member-init): filled below
  while (!connection.pending->empty()) {
    const std::size_t room = std::min(writes.size(), connection.endpoint->room(connection.peer));
    if (room == 0) return;
    std::size_t count = 0;
    while (count < room && !connection.pending->empty()) {
      const std::uint32_t slot = connection.pending->pop_min();
      const Chunk& chunk = plan_->chunks[(*connection.chunks)[slot]];
      bytes_pushed_.add(bytes_of(chunk));
      writes[count++] = {.data = memory_.gradients + chunk.arena_offset * element_bytes_,
                         .bytes = bytes_of(chunk),
                         .immediate = wire::immediate(slot, connection.epoch)};
    }
    connection.endpoint->post(connection.peer, {writes.data(), count});
  }
}

bool Exchange::run_once() {
  for (std::uint32_t i = 0; i < connections_.size(); ++i) send(i);
  const bool shm = drain(*shm_, by_shm_peer_);
  const bool tcp = drain(*tcp_, by_tcp_peer_);
  bool verbs = false;
  for (const auto& lane : lanes_) verbs = drain(*lane->endpoint, lane->by_peer) || verbs;
  return shm || tcp || verbs;
}

bool Exchange::drain(transport::Endpoint& endpoint, const std::vector<std::uint32_t>& by_peer) {
  const std::size_t count = endpoint.poll(completions_);
  for (std::size_t i = 0; i < count; ++i) {
    const Completion& completion = completions_[i];
    Connection& connection = connections_[by_peer[completion.peer]];
    if (completion.kind == CompletionKind::kArrived) {
      on_reply(connection, completion);
    } else if (completion.kind == CompletionKind::kPeerLost) {
      fail(connection, completion.loss);
    }
  }
  return count > 0;
}

void Exchange::fail(const Connection& connection, transport::Loss loss) {
  if (!loss_) loss_ = ConnectionLoss{connection.server, connection.core, loss};
}

void Exchange::on_reply(Connection& connection, const Completion& arrived) {
  const std::uint32_t slot = wire::reply_slot_of(arrived.immediate);
  if (!wire::same_epoch(arrived.immediate, connection.epoch)) return;
  if (slot >= connection.chunks->size()) return fail(connection, transport::Loss::kBadFrame);
  const std::uint32_t id = (*connection.chunks)[slot];
  const Chunk& chunk = plan_->chunks[id];
  ChunkState& state = chunks_[id];
  if (!state.outstanding || arrived.bytes != bytes_of(chunk)) {
    return fail(connection, transport::Loss::kBadLength);
  }
  bytes_received_.add(arrived.bytes);
  if (memory_.parameters != nullptr) {
    std::byte* home = memory_.parameters + chunk.arena_offset * element_bytes_;
    if (arrived.data != home) std::memcpy(home, arrived.data, arrived.bytes);
  }
  state.outstanding = false;
  state.missing = chunk.segment_count;
  connection.outstanding.remove(arrived.bytes);
  for (std::uint32_t i = 0; i < chunk.segment_count; ++i) {
    KeyState& key = keys_[plan_->segments[chunk.first_segment + i].key];
    key.skipped = key.skipped || wire::was_skipped(arrived.immediate);
    if (--key.remaining == 0) --outstanding_;
  }
}

std::byte* Exchange::place_of(const Connection& connection, std::uint32_t immediate,
                              std::uint32_t bytes) const {
  const std::uint32_t slot = wire::reply_slot_of(immediate);
  if (slot >= connection.chunks->size()) return nullptr;
  const std::uint32_t id = (*connection.chunks)[slot];
  const Chunk& chunk = plan_->chunks[id];
  if (!chunks_[id].outstanding || bytes != bytes_of(chunk)) return nullptr;
  return memory_.parameters + chunk.arena_offset * element_bytes_;
}

void Exchange::expect(std::optional<KeyId> key) {
  for (Connection& connection : connections_) connection.needed = {};
  if (key) {
    const std::uint32_t first = plan_->first_chunk[*key];
    for (std::uint32_t id = first; id < first + plan_->chunk_count[*key]; ++id) {
      if (!chunks_[id].outstanding) continue;
      connections_[chunks_[id].connection].needed.add(bytes_of(plan_->chunks[id]));
    }
  }
  for (Connection& connection : connections_) {
    const Replies& needed = key ? connection.needed : connection.outstanding;
    const bool none = needed.count == 0;
    connection.endpoint->expect(connection.peer, none ? kNever : needed.count,
                                none ? UINT64_MAX : needed.bytes);
  }
}

void Exchange::expect_any() {
  for (Connection& connection : connections_) {
    connection.endpoint->expect(connection.peer, 1, 0);
  }
}

}  // namespace phub::client
