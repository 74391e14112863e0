// Two connected endpoints in one process, for any backend: what the conformance suite runs on.
//
// A backend is added by a factory and a definition of `endpoint_pairs` that lists it.
#pragma once

#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/types.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/memory/memory.h"
#include "common/transport/shm/shm_endpoint.h"
#include "common/transport/tcp/tcp_endpoint.h"
#include "tests/support/hang_guard.h"

namespace phub::transport {

// Places a write of immediate i at the start of room i of a window, and counts what it gave.
class RoomBuffers final : public ReceiveBuffers {
 public:
  static constexpr std::size_t kRoomBytes = 1U << 16;
  static constexpr std::uint32_t kRooms = 64;

  std::byte* acquire(PeerId, std::uint32_t immediate, std::uint32_t bytes) override {
    if (immediate >= kRooms || bytes > kRoomBytes) return nullptr;
    ++open;
    return window_.data() + immediate * kRoomBytes;
  }
  void release(PeerId, std::byte*) override { --open; }
  int open = 0;

  std::span<std::byte> window() { return window_; }

 private:
  std::vector<std::byte> window_ = std::vector<std::byte>(kRooms * kRoomBytes);
};

struct Side {
  RoomBuffers receive_buffers;
  std::unique_ptr<SharedMemory> memory;  // what its writes come from
  std::shared_ptr<void> kept;            // what else the endpoint needs
  std::unique_ptr<Endpoint> endpoint;
  PeerId peer = 0;
};

// Pairs are made, not moved: endpoints keep references to their sides.
struct EndpointPair {
  Side a;
  Side b;
  std::function<void()> kill_b;  // b's process dies: its end of the connection closes
  // Polls until what a side has posted is on its way, without taking anything.
  std::function<void(Side&)> settle = [](Side&) {};
};

inline std::unique_ptr<EndpointPair> blank_pair() {
  auto pair = std::make_unique<EndpointPair>();
  for (Side* side : {&pair->a, &pair->b}) {
    side->memory =
        std::move(*SharedMemory::create("test", RoomBuffers::kRooms * RoomBuffers::kRoomBytes));
  }
  return pair;
}

inline std::pair<UniqueFd, UniqueFd> stream_pair() {
  int fds[2] = {-1, -1};
  PHUB_CHECK(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds) == 0,
             "socketpair");
  return {UniqueFd(fds[0]), UniqueFd(fds[1])};
}

// The same over tcp, on the loopback interface.
inline std::pair<UniqueFd, UniqueFd> loopback(int family) {
  const UniqueFd listener(::socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_storage address = {};
  socklen_t length = family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
  address.ss_family = static_cast<sa_family_t>(family);
  if (family == AF_INET) {
    reinterpret_cast<sockaddr_in&>(address).sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  } else {
    reinterpret_cast<sockaddr_in6&>(address).sin6_addr = in6addr_loopback;
  }
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  PHUB_CHECK(::bind(listener.get(), generic, length) == 0, "bind to the loopback address");
  PHUB_CHECK(::listen(listener.get(), 1) == 0, "listen");
  ::getsockname(listener.get(), generic, &length);
  UniqueFd near(::socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  PHUB_CHECK(::connect(near.get(), generic, length) == 0, "connect");
  UniqueFd far(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  ::fcntl(near.get(), F_SETFL, O_NONBLOCK);
  return {std::move(near), std::move(far)};
}

inline StreamKeys test_keys() {
  return stream_keys(std::array<std::uint8_t, 32>{1}, Hello{.encrypted = 1}, Challenge{});
}
inline std::unique_ptr<SealedStream> sealed_stream(HandshakeRole own) {
  return std::move(*SealedStream::create(test_keys(), own));
}
// What the stream sends for one write.
inline void append_sent(SealedStream& stream, const Write& write, std::vector<std::byte>& to) {
  FrameQueue frames;
  frames.push(write);
  while (!stream.is_all_sent(frames)) {
    std::array<iovec, FrameQueue::kMostParts> parts = {};
    stream.gather(frames, parts);
    const auto* const begin = static_cast<const std::byte*>(parts[0].iov_base);
    to.insert(to.end(), begin, begin + parts[0].iov_len);
    stream.sent(frames, parts[0].iov_len);
  }
}

inline std::unique_ptr<EndpointPair> tcp_pair(TcpStream stream_a, TcpStream stream_b) {
  auto pair = blank_pair();
  const auto open = [](Side& side, TcpStream stream) {
    auto endpoint = std::move(*TcpEndpoint::create({.max_peers = 4}, side.receive_buffers));
    side.peer = *endpoint->add(std::move(stream));
    side.endpoint = std::move(endpoint);
  };
  open(pair->a, std::move(stream_a));
  open(pair->b, std::move(stream_b));
  pair->kill_b = [raw = pair.get()] { raw->b.endpoint->remove(raw->b.peer); };
  return pair;
}

inline std::unique_ptr<EndpointPair> shm_pair() {
  constexpr std::uint32_t kCapacity = 64;
  auto pair = blank_pair();
  auto channel = std::move(*SharedMemory::create("channel", channel_bytes(kCapacity)));
  auto [socket_a, socket_b] = stream_pair();
  const auto open = [&](Side& side, const Side& other, UniqueFd socket, bool core_side) {
    auto endpoint = std::move(*ShmEndpoint::create(4));
    ShmConnection connection;
    connection.socket = std::move(socket);
    connection.channel = std::move(*Mapping::of_file(channel->fd(), channel->size(), true));
    connection.capacity = kCapacity;
    connection.core_side = core_side;
    connection.own_memory = {side.memory->data(), side.memory->size()};
    connection.peer_memory =
        std::move(*Mapping::of_file(other.memory->fd(), other.memory->size(), false));
    side.peer = *endpoint->add(std::move(connection));
    side.endpoint = std::move(endpoint);
  };
  open(pair->a, pair->b, std::move(socket_a), true);
  open(pair->b, pair->a, std::move(socket_b), false);
  pair->kill_b = [raw = pair.get()] { raw->b.endpoint->remove(raw->b.peer); };
  return pair;
}

struct NamedPair {
  std::string name;
  std::function<std::unique_ptr<EndpointPair>()> make;
};

// What the suite runs on; each of its executables links a definition, tests/transport/pairs_*.cc.
std::vector<NamedPair> endpoint_pairs();

// Polls until `count` completions are there or the hang guard has passed.
inline std::vector<Completion> collect(Endpoint& endpoint, std::size_t count) {
  std::vector<Completion> all;
  std::vector<Completion> batch(16);
  const auto deadline = std::chrono::steady_clock::now() + testing::kHangGuard;
  while (all.size() < count && std::chrono::steady_clock::now() < deadline) {
    const std::size_t got = endpoint.poll(batch);
    all.insert(all.end(), batch.begin(), batch.begin() + static_cast<std::ptrdiff_t>(got));
  }
  return all;
}

}  // namespace phub::transport
