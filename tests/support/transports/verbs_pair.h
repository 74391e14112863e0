// Two connected verbs endpoints in one process, on any libibverbs.
#pragma once

#include <thread>

#include "common/transport/verbs/registered.h"
#include "common/transport/verbs/verbs_endpoint.h"
#include "tests/support/transports/endpoint_pair.h"

namespace phub::transport {

// The other half of RoomBuffers.
struct RoomLayout final : Layout {
  std::uint64_t offset(PeerId, const Write& write) const override {
    return write.immediate * RoomBuffers::kRoomBytes;
  }
};

inline std::shared_ptr<verbs::Registered> register_side(
    Side& side, std::shared_ptr<const verbs::OpenDevice> device) {
  return *verbs::register_both(std::move(device), {side.memory->data(), side.memory->size()},
                               side.receive_buffers.window());
}

// Each side has a queue pair for `outstanding` writes.
inline std::unique_ptr<EndpointPair> verbs_pair(
    const std::shared_ptr<const verbs::OpenDevice>& device_a,
    const std::shared_ptr<const verbs::OpenDevice>& device_b, std::uint32_t outstanding = 64) {
  static const RoomLayout kLayout;
  auto pair = blank_pair();
  auto [socket_a, socket_b] = stream_pair();
  const auto prepare = [&](Side& side, const std::shared_ptr<const verbs::OpenDevice>& device,
                           UniqueFd socket) {
    auto registered = register_side(side, device);
    auto endpoint = std::move(*VerbsEndpoint::create(device, 4, side.receive_buffers, kLayout));
    VerbsConnection connection =
        std::move(*endpoint->connector().prepare(verbs::regions_of(registered), outstanding));
    connection.socket = std::move(socket);
    side.kept = registered;
    side.endpoint = std::move(endpoint);
    return connection;
  };
  VerbsConnection a = prepare(pair->a, device_a, std::move(socket_a));
  VerbsConnection b = prepare(pair->b, device_b, std::move(socket_b));
  a.peer = b.own;
  b.peer = a.own;
  const auto connect = [](Side& side, VerbsConnection connection) {
    auto& endpoint = static_cast<VerbsEndpoint&>(*side.endpoint);
    const Status status = endpoint.connector().connect(connection);
    PHUB_CHECK(status.ok(), status.message());
    side.peer = *endpoint.add(std::move(connection));
  };
  connect(pair->a, std::move(a));
  connect(pair->b, std::move(b));
  pair->kill_b = [raw = pair.get()] {
    auto& endpoint = static_cast<VerbsEndpoint&>(*raw->b.endpoint);
    endpoint.remove(raw->b.peer);
    while (endpoint.leaving() > 0) std::this_thread::yield();
  };
  return pair;
}

}  // namespace phub::transport
