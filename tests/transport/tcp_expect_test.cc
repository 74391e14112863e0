// What a sleeper over tcp is woken by once it has said what it expects, byte by byte.
#include <linux/sockios.h>
#include <sys/ioctl.h>

#include <catch2/catch.hpp>
#include <chrono>

#include "tests/support/hang_guard.h"
#include "tests/support/transports/endpoint_pair.h"

namespace phub::transport {
namespace {

constexpr std::uint32_t kFrameBytes = 30000;

// An endpoint at one end; at the other a socket that the test writes to.
struct ExpectRig {
  ExpectRig() {
    auto [near, far] = loopback(AF_INET);
    auto made = std::move(*TcpEndpoint::create({.max_peers = 1}, receive_buffers));
    peer = *made->add(std::move(near));
    endpoint = std::move(made);
    socket = std::move(far);
  }

  void send(const void* data, std::size_t bytes) const {
    const auto* left = static_cast<const std::byte*>(data);
    while (bytes > 0) {
      pollfd descriptor = {.fd = socket.get(), .events = POLLOUT, .revents = 0};
      REQUIRE(::poll(&descriptor, 1, testing::kHangGuard.count()) == 1);
      const ssize_t sent = ::send(socket.get(), left, bytes, 0);
      REQUIRE(sent > 0);
      left += sent;
      bytes -= static_cast<std::size_t>(sent);
    }
  }
  void send_frame(std::uint32_t immediate, std::size_t payload_bytes) const {
    const FrameHeader header{kFrameMagic, immediate, kFrameBytes,
                             frame_check(immediate, kFrameBytes)};
    send(&header, sizeof(header));
    send_payload(payload_bytes);
  }
  void send_payload(std::size_t bytes) const {
    const std::vector<std::byte> payload(bytes);
    send(payload.data(), payload.size());
  }
  // All that was sent is there: the other end has acknowledged it.
  void arrive() const {
    const auto deadline = std::chrono::steady_clock::now() + testing::kHangGuard;
    for (int left = 1; left > 0;) {
      REQUIRE(::ioctl(socket.get(), SIOCOUTQ, &left) == 0);
      REQUIRE(std::chrono::steady_clock::now() < deadline);
    }
  }
  bool is_woken(std::chrono::milliseconds time = testing::kHangGuard) const {
    pollfd descriptor = {.fd = endpoint->wait_fd(), .events = POLLIN, .revents = 0};
    return ::poll(&descriptor, 1, static_cast<int>(time.count())) == 1;
  }
  bool is_woken_at_once() const {
    arrive();
    return is_woken(std::chrono::milliseconds(0));
  }

  RoomBuffers receive_buffers;
  std::unique_ptr<Endpoint> endpoint;
  PeerId peer = 0;
  UniqueFd socket;
};

}  // namespace

TEST_CASE("a sleeper is not woken by less than it expects") {
  const ExpectRig rig;
  rig.endpoint->expect(rig.peer, 3, std::uint64_t{3} * kFrameBytes);
  REQUIRE(rig.endpoint->arm());
  rig.send_frame(1, kFrameBytes);
  rig.send_frame(2, kFrameBytes);
  CHECK_FALSE(rig.is_woken_at_once());
  rig.send_frame(3, kFrameBytes);
  CHECK(rig.is_woken());
  rig.endpoint->disarm();
  CHECK(collect(*rig.endpoint, 3).size() == 3);
}

TEST_CASE("a payload that has been begun is not waited for as a whole") {
  const ExpectRig rig;
  rig.send_frame(1, kFrameBytes - 10);
  std::vector<Completion> batch(4);
  const auto deadline = std::chrono::steady_clock::now() + testing::kHangGuard;
  while (rig.receive_buffers.open == 0 && std::chrono::steady_clock::now() < deadline) {
    CHECK(rig.endpoint->poll(batch) == 0);
  }
  CHECK(rig.endpoint->poll(batch) == 0);
  rig.endpoint->expect(rig.peer, 4, std::uint64_t{4} * kFrameBytes);
  REQUIRE(rig.endpoint->arm());
  rig.send_payload(10);
  CHECK_FALSE(rig.is_woken_at_once());
  for (const std::uint32_t immediate : {2U, 3U, 4U}) rig.send_frame(immediate, kFrameBytes);
  CHECK(rig.is_woken());
  rig.endpoint->disarm();
  CHECK(collect(*rig.endpoint, 4).size() == 4);
}

TEST_CASE("a sleeper that expects little, or nothing in particular, is woken by each byte") {
  const ExpectRig rig;
  for (const std::uint64_t bytes : {std::uint64_t{kFrameBytes}, std::uint64_t{0}}) {
    rig.endpoint->expect(rig.peer, 100, std::uint64_t{100} * kFrameBytes);
    REQUIRE(rig.endpoint->arm());
    rig.endpoint->disarm();
    rig.endpoint->expect(rig.peer, 1, bytes);
    REQUIRE(rig.endpoint->arm());
    rig.send_frame(1, 1);
    CHECK(rig.is_woken());
    rig.endpoint->disarm();
    rig.send_payload(kFrameBytes - 1);
    CHECK(collect(*rig.endpoint, 1).size() == 1);
  }
}

}  // namespace phub::transport
