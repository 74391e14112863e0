// Verbs endpoints on the fake device: a pair, or several that connect as a test says.
#pragma once

#include <catch2/catch.hpp>
#include <memory>
#include <tuple>
#include <utility>

#include "tests/support/transports/fake_device.h"
#include "tests/support/transports/verbs_pair.h"

namespace phub::transport {

inline std::unique_ptr<EndpointPair> fresh_pair(std::uint32_t outstanding = 64) {
  return verbs_pair(device(), device(), outstanding);
}

inline Write room_write(Side& side, std::uint32_t room, std::uint32_t bytes = 32768) {
  return {.data = side.memory->data() + room * RoomBuffers::kRoomBytes,
          .bytes = bytes,
          .immediate = room};
}

inline const RoomLayout kLayout;

// An endpoint with its memory, to which several connections are made.
struct Station {
  Side side;
  std::shared_ptr<verbs::Registered> registered;
  std::unique_ptr<VerbsEndpoint> endpoint;

  Station() {
    constexpr std::size_t kBytes = RoomBuffers::kRooms * RoomBuffers::kRoomBytes;
    side.memory = std::move(*SharedMemory::create("test", kBytes));
    registered = register_side(side, device());
    endpoint =
        std::move(*VerbsEndpoint::create(registered->device, 4, side.receive_buffers, kLayout));
  }
  VerbsConnection prepare() {
    return std::move(*endpoint->connector().prepare(verbs::regions_of(registered), 64));
  }
};

// Connects two stations; `forge` may change what `from` was told of `to`. Returns `to` at `from`.
template <typename Forge>
PeerId join(Station& from, Station& to, Forge forge) {
  VerbsConnection a = from.prepare();
  VerbsConnection b = to.prepare();
  std::tie(a.socket, b.socket) = stream_pair();
  a.peer = b.own;
  b.peer = a.own;
  forge(a.peer);
  REQUIRE(from.endpoint->connector().connect(a).ok());
  REQUIRE(to.endpoint->connector().connect(b).ok());
  const auto added = to.endpoint->add(std::move(b));
  REQUIRE(added);
  return *from.endpoint->add(std::move(a));
}

inline PeerId join(Station& from, Station& to) {
  return join(from, to, [](verbs::Introduction&) {});
}

}  // namespace phub::transport
