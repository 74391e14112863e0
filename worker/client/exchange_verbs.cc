// The one-sided half of an Exchange: a lane for each RDMA device.
#include "worker/client/exchange.h"

namespace phub::client {

std::byte* Exchange::VerbsLane::acquire(transport::PeerId peer, std::uint32_t immediate,
                                        std::uint32_t bytes) {
  return exchange.place_of(exchange.connections_[by_peer[peer]], immediate, bytes);
}

std::uint64_t Exchange::VerbsLane::offset(transport::PeerId peer, std::uint32_t immediate) const {
  const std::uint32_t slot = wire::slot_of(immediate);
  const WindowLayout& landing = exchange.connections_[by_peer[peer]].landing;
  if (slot == wire::kHyperSlot) return WindowLayout::kHyper;
  return slot == wire::kVoteSlot ? WindowLayout::kVote : landing.slots[slot];
}

Result<transport::VerbsEndpoint*> Exchange::verbs_on(
    const std::shared_ptr<const transport::verbs::OpenDevice>& device) {
  for (const auto& lane : lanes_) {
    if (&lane->endpoint->connector().device() == device.get()) return lane->endpoint.get();
  }
  auto lane = std::make_unique<VerbsLane>(*this);
  const auto connections = static_cast<std::uint32_t>(by_tcp_peer_.size());
  lane->by_peer.resize(connections);
  PHUB_ASSIGN_OR_RETURN(lane->endpoint,
                        transport::VerbsEndpoint::create(device, connections, *lane, *lane));
  return lanes_.emplace_back(std::move(lane))->endpoint.get();
}

Status Exchange::connect_verbs(std::uint32_t server, std::uint32_t core, std::uint32_t epoch,
                               const transport::VerbsEndpoint* endpoint,
                               transport::VerbsConnection verbs_connection) {
  for (const auto& lane : lanes_) {
    if (lane->endpoint.get() != endpoint) continue;
    PHUB_ASSIGN_OR_RETURN(const transport::PeerId peer,
                          lane->endpoint->add(std::move(verbs_connection)));
    lane->by_peer[peer] = static_cast<std::uint32_t>(connections_.size());
    Connection& connection = add(server, core, epoch);
    connection.landing = make_window_layout(*plan_, server, core, element_bytes_);
    connection.endpoint = lane->endpoint.get();
    connection.peer = peer;
    return {};
  }
  return {Code::kInternal, "an endpoint of another exchange"};
}

void Exchange::use_verbs_source(
    std::span<const std::byte> bytes,
    const std::function<std::uint32_t(const transport::verbs::OpenDevice&)>& key_on) {
  for (const auto& lane : lanes_) {
    const std::uint32_t key = key_on(lane->endpoint->connector().device());
    for (const Connection& connection : connections_) {
      if (connection.endpoint != lane->endpoint.get()) continue;
      lane->endpoint->use_second_source(connection.peer, {bytes, key});
    }
  }
}

std::vector<transport::Endpoint*> Exchange::endpoints() {
  std::vector<transport::Endpoint*> all = {shm_.get(), tcp_.get()};
  for (const auto& lane : lanes_) all.push_back(lane->endpoint.get());
  return all;
}

}  // namespace phub::client
