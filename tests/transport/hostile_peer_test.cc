// Peers that break the protocol end their own connection, with the right cause, and nothing else.
#include <fcntl.h>
#include <sys/mman.h>

#include <array>
#include <catch2/catch.hpp>
#include <cstring>

#include "common/memory/fault_guard.h"
#include "common/memory/peer_memory.h"
#include "tests/support/transports/endpoint_pair.h"

namespace phub::transport {

std::unique_ptr<EndpointPair> loopback_pair(int) { return nullptr; }

namespace {

struct Attack {
  RoomBuffers receive_buffers;
  std::unique_ptr<TcpEndpoint> endpoint;
  UniqueFd attacker;

  Attack() {
    auto [ours, theirs] = stream_pair();
    endpoint = std::move(
        *TcpEndpoint::create({.max_peers = 2, .max_write_bytes = 1U << 16}, receive_buffers));
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
    CHECK(receive_buffers.open == 0);
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

TEST_CASE("a header whose magic alone, or whose check alone, is wrong loses the peer") {
  for (std::uint32_t FrameHeader::*const field : {&FrameHeader::magic, &FrameHeader::check}) {
    Attack attack;
    FrameHeader header = header_of(1, 16);
    header.*field ^= 1U;
    attack.send(&header, sizeof(header));
    CHECK(attack.outcome() == Loss::kBadFrame);
  }
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
  const FrameHeader header = header_of(RoomBuffers::kRooms, 16);
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
  PeerId peer = 0;

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
    peer = *added;
    attacker = std::move(theirs);
  }
  RingIndexes& ring() const { return *reinterpret_cast<RingIndexes*>(channel->data()); }
  Notice* notices() const {
    return reinterpret_cast<Notice*>(channel->data() + 2 * sizeof(RingIndexes));
  }
  void notice(const Notice& notice) const {
    notices()[0] = notice;
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

TEST_CASE("a ring whose indexes jump loses the peer, whatever its notices say") {
  for (const std::uint32_t tail : {ShmAttack::kCapacity + 1, 5000U}) {
    const ShmAttack attack;
    for (std::uint32_t i = 0; i < ShmAttack::kCapacity; ++i) attack.notices()[i] = {1, 16, 0};
    attack.ring().tail.store(tail);
    attack.check_lost();
  }
}

TEST_CASE("a ring whose reader is ahead of its writer loses the peer") {
  const ShmAttack attack;
  (&attack.ring())[1].head.store(1);  // the worker's end of our own ring
  const Write write{.data = attack.memory->data(), .bytes = 16, .immediate = 1};
  CHECK(attack.endpoint->post(attack.peer, {&write, 1}) == 1);
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

TEST_CASE("a peer's memory has the size that was agreed on, and no page of it can go") {
  const auto refused = [](int fd, std::size_t bytes) {
    const auto mapped = map_peer_memory(fd, bytes, PeerAccess::kRead);
    return mapped ? std::string("taken") : mapped.error().message();
  };
  using Catch::Matchers::Contains;
  constexpr std::size_t kBytes = 5 * 4096 + 100;
  for (const int seals : {0, F_SEAL_GROW, F_SEAL_SHRINK}) {
    const UniqueFd unsealed(::memfd_create("unsealed", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    REQUIRE(::ftruncate(unsealed.get(), kBytes) == 0);
    REQUIRE(::fcntl(unsealed.get(), F_ADD_SEALS, seals) == 0);
    CHECK_THAT(refused(unsealed.get(), kBytes), Contains("not sealed against another size"));
  }
  const auto memory = std::move(*SharedMemory::create("sealed", kBytes));
  memory->data()[0] = std::byte{1};
  CHECK_THAT(refused(memory->fd(), kBytes), Contains("not sealed against holes"));
  const auto sparse = std::move(*SharedMemory::create("sparse", kBytes));
  sparse->data()[0] = std::byte{1};
  REQUIRE(sparse->share_read_only());
  CHECK_THAT(refused(sparse->fd(), kBytes), Contains("must fill it"));
  REQUIRE(memory->commit().ok());
  CHECK_THAT(refused(memory->fd(), kBytes + 1), Contains("agreed are"));
  CHECK_THAT(refused(memory->fd(), kBytes - 1), Contains("agreed are"));
  CHECK(refused(memory->fd(), kBytes) == "taken");
  CHECK(::fallocate(memory->fd(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096) != 0);
  CHECK(::madvise(memory->data(), 4096, MADV_REMOVE) != 0);
}

TEST_CASE("memory of the machine's huge pages is not accepted from a peer") {
  const UniqueFd huge(::memfd_create("huge", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_HUGETLB));
  REQUIRE(huge);
  constexpr std::size_t kHugePage = 2U << 20U;
  REQUIRE(::ftruncate(huge.get(), kHugePage) == 0);  // the pool need not have the page
  REQUIRE(::fcntl(huge.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) == 0);
  const auto mapped = map_peer_memory(huge.get(), kHugePage, PeerAccess::kRead);
  REQUIRE_FALSE(mapped);
  CHECK_THAT(mapped.error().message(), Catch::Matchers::Contains("huge pages"));
}

TEST_CASE("a channel that both sides write to is sealed by who maps it from its peer") {
  constexpr std::size_t kBytes = channel_bytes(64);
  const auto channel = std::move(*SharedMemory::create("channel", kBytes));
  CHECK_FALSE(map_peer_memory(channel->fd(), kBytes, PeerAccess::kReadWrite));  // it has holes
  const auto full = std::move(*SharedMemory::create("channel", kBytes));
  REQUIRE(full->populate().ok());
  const auto mapped = std::move(*map_peer_memory(full->fd(), kBytes, PeerAccess::kReadWrite));
  full->data()[1] = std::byte{7};
  CHECK(mapped->data()[1] == std::byte{7});
  CHECK(::fallocate(full->fd(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096) != 0);
}

namespace {

// A worker with memory that becomes shorter under its reader, which a sealed one cannot.
struct Shrinking {
  static constexpr std::uint32_t kCapacity = 64;
  static constexpr std::size_t kBytes = 8192;
  std::unique_ptr<SharedMemory> channel =
      std::move(*SharedMemory::create("channel", channel_bytes(kCapacity)));
  UniqueFd memory{::memfd_create("shrinking", MFD_CLOEXEC)};
  UniqueFd own_end;
  PeerId peer = 0;

  explicit Shrinking(ShmEndpoint& endpoint, const Mapping& parameters) {
    REQUIRE(::ftruncate(memory.get(), kBytes) == 0);
    auto [ours, theirs] = stream_pair();
    ShmConnection connection;
    connection.socket = std::move(ours);
    connection.channel = std::move(*Mapping::of_file(channel->fd(), channel->size(), true));
    connection.capacity = kCapacity;
    connection.core_side = true;
    connection.own_memory = {parameters.data(), parameters.size()};
    connection.peer_memory = std::move(*Mapping::of_file(memory.get(), kBytes, false));
    REQUIRE(connection.peer_memory->guard(false).ok());
    peer = *endpoint.add(std::move(connection));
    own_end = std::move(theirs);
  }
  void push() const {
    auto* const ring = reinterpret_cast<RingIndexes*>(channel->data());
    *reinterpret_cast<Notice*>(channel->data() + 2 * sizeof(RingIndexes)) = {1, 16, 4096};
    ring->tail.store(1);
  }
};

}  // namespace

TEST_CASE("a worker whose memory cannot be read is lost, and its neighbour is not") {
  REQUIRE(install_fault_guard().ok());
  const auto parameters = std::move(*Mapping::anonymous(4096));
  const auto endpoint = std::move(*ShmEndpoint::create(2));
  const Shrinking broken(*endpoint, *parameters);
  const Shrinking honest(*endpoint, *parameters);
  broken.push();
  honest.push();
  const auto arrived = collect(*endpoint, 2);
  REQUIRE(arrived.size() == 2);
  REQUIRE(::ftruncate(broken.memory.get(), 0) == 0);
  for (const Completion& push : arrived) {
    CHECK(static_cast<const volatile std::byte&>(*push.data) == std::byte{0});
  }
  const auto lost = collect(*endpoint, 1);
  REQUIRE(lost.size() == 1);
  CHECK(lost[0].kind == CompletionKind::kPeerLost);
  CHECK(lost[0].loss == Loss::kUnreadable);
  CHECK(lost[0].peer == broken.peer);
  endpoint->remove(broken.peer);
  std::vector<Completion> batch(4);
  CHECK(endpoint->poll(batch) == 0);
}

TEST_CASE("parameters that are shared read-only cannot be mapped writable") {
  const auto memory = std::move(*SharedMemory::create("parameters", 4096));
  const UniqueFd shared = std::move(*memory->share_read_only());
  CHECK(Mapping::of_file(shared.get(), 4096, false));
  CHECK_FALSE(Mapping::of_file(shared.get(), 4096, true));
  CHECK_FALSE(Mapping::of_file(memory->fd(), 4096, true));
}

}  // namespace phub::transport
