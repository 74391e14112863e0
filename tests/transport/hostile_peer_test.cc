// Peers that break the protocol end their own connection, with the right cause, and nothing else.
#include <sys/mman.h>

#include <array>
#include <catch2/catch.hpp>
#include <cstring>

#include "tests/support/endpoint_pair.h"

namespace phub::transport {

std::unique_ptr<EndpointPair> loopback_pair(int) { return nullptr; }

namespace {

struct Attack {
  RoomPlacement placement;
  std::unique_ptr<TcpEndpoint> endpoint;
  UniqueFd attacker;

  Attack() {
    auto [ours, theirs] = stream_pair();
    endpoint =
        std::move(*TcpEndpoint::create({.max_peers = 2, .max_write_bytes = 1U << 16}, placement));
    const auto added = endpoint->add(std::move(ours));
    REQUIRE(added);
    attacker = std::move(theirs);
  }
  void send(const void* data, std::size_t bytes) const {
    REQUIRE(::send(attacker.get(), data, bytes, 0) == static_cast<ssize_t>(bytes));
  }
  Loss outcome() {
    const auto seen = collect(*endpoint, 1);
    REQUIRE(seen.size() == 1);
    REQUIRE(seen[0].kind == CompletionKind::kPeerLost);
    endpoint->remove(seen[0].peer);
    CHECK(placement.open == 0);
    return seen[0].loss;
  }
};

FrameHeader header_of(std::uint32_t immediate, std::uint32_t bytes) {
  return {.magic = kFrameMagic,
          .immediate = immediate,
          .bytes = bytes,
          .check = frame_check(immediate, bytes)};
}

}  // namespace

TEST_CASE("bytes that are not a frame lose the peer") {
  Attack attack;
  const std::array<std::uint8_t, 64> garbage = {0x47, 0x45, 0x54, 0x20, 0x2f};
  attack.send(garbage.data(), garbage.size());
  CHECK(attack.outcome() == Loss::kBadFrame);
}

TEST_CASE("an oversized length loses the peer before a byte of it is read") {
  Attack attack;
  const FrameHeader header = header_of(1, 0xFFFFFFFF);
  attack.send(&header, sizeof(header));
  CHECK(attack.outcome() == Loss::kBadLength);
}

TEST_CASE("an empty frame loses the peer") {
  Attack attack;
  const FrameHeader header = header_of(1, 0);
  attack.send(&header, sizeof(header));
  CHECK(attack.outcome() == Loss::kBadLength);
}

TEST_CASE("a write without a place loses the peer") {
  Attack attack;
  const FrameHeader header = header_of(RoomPlacement::kRooms, 16);
  attack.send(&header, sizeof(header));
  CHECK(attack.outcome() == Loss::kRefused);
}

TEST_CASE("a frame cut short by the end of the stream gives its place back") {
  Attack attack;
  const FrameHeader header = header_of(1, 1000);
  attack.send(&header, sizeof(header));
  attack.send(&header, 10);
  attack.attacker.reset();
  CHECK(attack.outcome() == Loss::kClosed);
}

namespace {

// A core's endpoint with one worker, whose side of the channel the test writes by hand.
struct ShmAttack {
  static constexpr std::uint32_t kCapacity = 64;
  static constexpr std::size_t kMemoryBytes = 4096;
  std::unique_ptr<SharedMemory> channel =
      std::move(*SharedMemory::create("channel", channel_bytes(kCapacity)));
  std::unique_ptr<SharedMemory> memory = std::move(*SharedMemory::create("memory", kMemoryBytes));
  std::unique_ptr<ShmEndpoint> endpoint = std::move(*ShmEndpoint::create(2));
  UniqueFd attacker;

  ShmAttack() {
    auto [ours, theirs] = stream_pair();
    ShmConnection connection;
    connection.socket = std::move(ours);
    connection.channel = std::move(*Mapping::of_file(channel->fd(), channel->size(), true));
    connection.capacity = kCapacity;
    connection.core_side = true;
    connection.own_memory = {memory->data(), memory->size()};
    connection.peer_memory = std::move(*Mapping::of_file(memory->fd(), memory->size(), false));
    const auto added = endpoint->add(std::move(connection));
    REQUIRE(added);
    attacker = std::move(theirs);
  }
  RingIndexes& ring() const { return *reinterpret_cast<RingIndexes*>(channel->data()); }
  void notice(const Notice& notice) const {
    *reinterpret_cast<Notice*>(channel->data() + 2 * sizeof(RingIndexes)) = notice;
    ring().tail.store(1);
  }
  void check_lost() const {
    const auto seen = collect(*endpoint, 1);
    REQUIRE(seen.size() == 1);
    CHECK(seen[0].kind == CompletionKind::kPeerLost);
    CHECK(seen[0].loss == Loss::kBadMemory);
  }
};

}  // namespace

TEST_CASE("a ring whose indexes jump loses the peer") {
  const ShmAttack attack;
  attack.ring().tail.store(5000);
  attack.check_lost();
}

TEST_CASE("a notice that points outside the shared memory loses the peer") {
  for (const Notice& notice : {Notice{1, 16, ShmAttack::kMemoryBytes - 8}, Notice{1, 0xFFFFFFFF, 0},
                               Notice{1, 16, ~0ULL - 4}, Notice{1, 0, 0}}) {
    const ShmAttack attack;
    attack.notice(notice);
    attack.check_lost();
  }
}

TEST_CASE("memory that a peer could shrink is not accepted") {
  const UniqueFd unsealed(::memfd_create("unsealed", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  REQUIRE(::ftruncate(unsealed.get(), 4096) == 0);
  CHECK_FALSE(check_sealed(unsealed.get(), 4096).ok());
  const auto sealed = std::move(*SharedMemory::create("sealed", 4096));
  CHECK(check_sealed(sealed->fd(), 4096).ok());
  CHECK_FALSE(check_sealed(sealed->fd(), 8192).ok());
}

TEST_CASE("parameters that are shared read-only cannot be mapped writable") {
  const auto memory = std::move(*SharedMemory::create("parameters", 4096));
  const UniqueFd shared = std::move(*memory->share_read_only());
  CHECK(Mapping::of_file(shared.get(), 4096, false));
  CHECK_FALSE(Mapping::of_file(shared.get(), 4096, true));
  CHECK_FALSE(Mapping::of_file(memory->fd(), 4096, true));
}

}  // namespace phub::transport
