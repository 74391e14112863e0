// The contract of common/transport/transport.h, for every backend.
#include <catch2/catch.hpp>
#include <cstring>
#include <thread>

#include "tests/support/hang_guard.h"
#include "tests/support/transports/endpoint_pair.h"

namespace phub::transport {
namespace {

constexpr int kGuardMs = testing::kHangGuard.count();

void fill(Side& side, std::uint32_t room, std::uint32_t bytes, unsigned seed) {
  std::byte* data = side.memory->data() + room * RoomBuffers::kRoomBytes;
  for (std::uint32_t i = 0; i < bytes; ++i) data[i] = static_cast<std::byte>(seed * 31 + i * 7);
}

bool holds(const std::byte* data, std::uint32_t bytes, unsigned seed) {
  for (std::uint32_t i = 0; i < bytes; ++i) {
    if (data[i] != static_cast<std::byte>(seed * 31 + i * 7)) return false;
  }
  return true;
}

Write write_of(Side& side, std::uint32_t room, std::uint32_t bytes) {
  return {.data = side.memory->data() + room * RoomBuffers::kRoomBytes,
          .bytes = bytes,
          .immediate = room};
}

}  // namespace

TEST_CASE("a write arrives whole, with its immediate, in both directions") {
  for (const NamedPair& backend : endpoint_pairs()) {
    INFO(backend.name);
    const auto pair = backend.make();
    for (const std::uint32_t bytes : {1U, 15U, 16U, 17U, 4096U, 32768U, 65536U}) {
      for (auto [from, to] : {std::pair(&pair->a, &pair->b), std::pair(&pair->b, &pair->a)}) {
        fill(*from, 3, bytes, bytes);
        const Write write = write_of(*from, 3, bytes);
        REQUIRE(from->endpoint->post(from->peer, {&write, 1}) == 1);
        pair->settle(*from);
        const auto arrived = collect(*to->endpoint, 1);
        REQUIRE(arrived.size() == 1);
        CHECK(arrived[0].kind == CompletionKind::kArrived);
        CHECK(arrived[0].peer == to->peer);
        CHECK(arrived[0].immediate == 3);
        CHECK(arrived[0].bytes == bytes);
        CHECK(holds(arrived[0].data, bytes, bytes));
      }
    }
  }
}

TEST_CASE("writes of one peer arrive in order, each once, whatever post accepts") {
  for (const NamedPair& backend : endpoint_pairs()) {
    INFO(backend.name);
    const auto pair = backend.make();
    std::vector<Write> writes;
    for (std::uint32_t i = 0; i < RoomBuffers::kRooms; ++i) {
      fill(pair->a, i, 20000, i);
      writes.push_back(write_of(pair->a, i, 20000));
    }
    std::vector<Completion> batch(8);
    std::size_t posted = 0;
    std::uint32_t seen = 0;
    const auto deadline = std::chrono::steady_clock::now() + testing::kHangGuard;
    while (seen < writes.size() && std::chrono::steady_clock::now() < deadline) {
      posted += pair->a.endpoint->post(pair->a.peer, std::span(writes).subspan(posted));
      pair->a.endpoint->poll(batch);
      const std::size_t count = pair->b.endpoint->poll(batch);
      for (std::size_t i = 0; i < count; ++i, ++seen) {
        REQUIRE(batch[i].immediate == seen);
        REQUIRE(holds(batch[i].data, 20000, seen));
      }
    }
    CHECK(seen == writes.size());
    CHECK(pair->b.endpoint->poll(batch) == 0);
  }
}

TEST_CASE("post accepts fewer writes than offered when the peer does not read, and loses none") {
  for (const NamedPair& backend : endpoint_pairs()) {
    INFO(backend.name);
    const auto pair = backend.make();
    fill(pair->a, 0, 65536, 1);
    const std::vector<Write> writes(4096, write_of(pair->a, 0, 65536));
    const std::size_t accepted = pair->a.endpoint->post(pair->a.peer, writes);
    CHECK(accepted < writes.size());
    std::vector<Completion> batch(16);
    std::size_t seen = 0;
    const auto deadline = std::chrono::steady_clock::now() + testing::kHangGuard;
    while (seen < accepted && std::chrono::steady_clock::now() < deadline) {
      seen += pair->b.endpoint->poll(batch);
      pair->a.endpoint->poll(batch);
    }
    CHECK(seen == accepted);
  }
}

TEST_CASE("post takes what room promises, and promises again once the peer has read") {
  for (const NamedPair& backend : endpoint_pairs()) {
    INFO(backend.name);
    const auto pair = backend.make();
    fill(pair->a, 0, 65536, 1);
    const std::vector<Write> writes(64, write_of(pair->a, 0, 65536));
    Endpoint& endpoint = *pair->a.endpoint;
    REQUIRE(endpoint.room(pair->a.peer) > 0);
    std::size_t posted = 0;
    for (std::size_t room = 0; (room = endpoint.room(pair->a.peer)) > 0; posted += room) {
      REQUIRE(posted < 1U << 16);  // the peer does not read: it has to end
      room = std::min(room, writes.size());
      REQUIRE(endpoint.post(pair->a.peer, {writes.data(), room}) == room);
    }
    CHECK(endpoint.post(pair->a.peer, writes) == 0);
    std::vector<Completion> batch(16);
    const auto deadline = std::chrono::steady_clock::now() + testing::kHangGuard;
    for (std::size_t seen = 0; seen < posted && std::chrono::steady_clock::now() < deadline;) {
      seen += pair->b.endpoint->poll(batch);
      endpoint.poll(batch);
    }
    CHECK(endpoint.room(pair->a.peer) > 0);
  }
}

// Else its owner sleeps with writes left, and nothing wakes it.
TEST_CASE("post takes a burst of small writes at once while the peer has room for them") {
  for (const NamedPair& backend : endpoint_pairs()) {
    INFO(backend.name);
    const auto pair = backend.make();
    const std::vector<Write> writes(64, write_of(pair->a, 1, 16));
    CHECK(pair->a.endpoint->post(pair->a.peer, writes) == writes.size());
    pair->settle(pair->a);
    CHECK(collect(*pair->b.endpoint, writes.size()).size() == writes.size());
  }
}

TEST_CASE("a sleeper that armed is woken by a write, and arm refuses when one is there") {
  for (const NamedPair& backend : endpoint_pairs()) {
    INFO(backend.name);
    const auto pair = backend.make();
    REQUIRE(pair->b.endpoint->arm());
    const Write write = write_of(pair->a, 1, 1000);
    std::thread writer([&] {
      pair->a.endpoint->post(pair->a.peer, {&write, 1});
      pair->settle(pair->a);
    });
    pollfd descriptor = {.fd = pair->b.endpoint->wait_fd(), .events = POLLIN, .revents = 0};
    CHECK(::poll(&descriptor, 1, kGuardMs) == 1);
    writer.join();
    pair->b.endpoint->disarm();
    CHECK(collect(*pair->b.endpoint, 1).size() == 1);

    REQUIRE(pair->a.endpoint->post(pair->a.peer, {&write, 1}) == 1);
    pair->settle(pair->a);
    const bool armed = pair->b.endpoint->arm();
    if (armed) {  // then the descriptor must tell at once
      descriptor.revents = 0;
      CHECK(::poll(&descriptor, 1, kGuardMs) == 1);
    }
    pair->b.endpoint->disarm();
    CHECK(collect(*pair->b.endpoint, 1).size() == 1);
  }
}

TEST_CASE("a sleeper that expects several writes is woken when all of them are there") {
  constexpr std::uint32_t kBytes = 30000;  // three are worth waiting for over tcp, too
  for (const NamedPair& backend : endpoint_pairs()) {
    INFO(backend.name);
    const auto pair = backend.make();
    Endpoint& sleeper = *pair->a.endpoint;
    const auto post = [&](std::uint32_t immediate) {
      const Write write = write_of(pair->b, immediate, kBytes);
      REQUIRE(pair->b.endpoint->post(pair->b.peer, {&write, 1}) == 1);
      pair->settle(pair->b);
    };
    const auto is_woken = [&](int timeout) {
      pollfd descriptor = {.fd = sleeper.wait_fd(), .events = POLLIN, .revents = 0};
      return ::poll(&descriptor, 1, timeout) == 1;
    };
    // Once from the beginning, once after some of what was expected has been taken.
    for (const std::uint32_t taken : {0U, 1U}) {
      sleeper.expect(pair->a.peer, 3, std::uint64_t{3} * kBytes);
      for (std::uint32_t i = 0; i < taken; ++i) post(i);
      CHECK(collect(sleeper, taken).size() == taken);
      sleeper.expect(pair->a.peer, 3 - taken, std::uint64_t{3 - taken} * kBytes);
      REQUIRE(sleeper.arm());
      for (std::uint32_t i = taken; i < 3; ++i) post(i);
      CHECK(is_woken(kGuardMs));
      sleeper.disarm();
      CHECK(collect(sleeper, 3 - taken).size() == 3 - taken);
    }
    // Whatever it expects, it hears of the peer's end.
    sleeper.expect(pair->a.peer, UINT32_MAX, UINT64_MAX);
    REQUIRE(sleeper.arm());
    pair->kill_b();
    CHECK(is_woken(kGuardMs));
    sleeper.disarm();
    const auto seen = collect(sleeper, 1);
    REQUIRE(seen.size() == 1);
    CHECK(seen[0].kind == CompletionKind::kPeerLost);
  }
}

TEST_CASE("a peer that dies is lost once, after everything that it had written") {
  for (const NamedPair& backend : endpoint_pairs()) {
    INFO(backend.name);
    const auto pair = backend.make();
    const Write write = write_of(pair->b, 2, 500);
    REQUIRE(pair->b.endpoint->post(pair->b.peer, {&write, 1}) == 1);
    pair->kill_b();
    pollfd descriptor = {.fd = pair->a.endpoint->wait_fd(), .events = POLLIN, .revents = 0};
    if (pair->a.endpoint->arm()) CHECK(::poll(&descriptor, 1, kGuardMs) == 1);
    pair->a.endpoint->disarm();
    const auto seen = collect(*pair->a.endpoint, 2);
    REQUIRE(seen.size() == 2);
    CHECK(seen[0].kind == CompletionKind::kArrived);
    CHECK(seen[1].kind == CompletionKind::kPeerLost);
    CHECK(seen[1].loss == Loss::kClosed);
    std::vector<Completion> batch(4);
    CHECK(pair->a.endpoint->poll(batch) == 0);
    // Writes to the dead are swallowed; the endpoint lives on.
    const Write late = write_of(pair->a, 2, 500);
    CHECK(pair->a.endpoint->post(pair->a.peer, {&late, 1}) == 1);
    pair->a.endpoint->remove(pair->a.peer);
    CHECK(pair->a.endpoint->poll(batch) == 0);
  }
}

TEST_CASE("nothing arrives from a paused peer, and all of it after the pause") {
  for (const NamedPair& backend : endpoint_pairs()) {
    INFO(backend.name);
    const auto pair = backend.make();
    pair->b.endpoint->pause(pair->b.peer, true);
    const std::vector<Write> writes(3, write_of(pair->a, 4, 100));
    REQUIRE(pair->a.endpoint->post(pair->a.peer, writes) == 3);
    pair->settle(pair->a);
    std::vector<Completion> batch(4);
    for (int i = 0; i < 100; ++i) REQUIRE(pair->b.endpoint->poll(batch) == 0);
    pair->b.endpoint->pause(pair->b.peer, false);
    CHECK(collect(*pair->b.endpoint, 3).size() == 3);
  }
}

}  // namespace phub::transport
