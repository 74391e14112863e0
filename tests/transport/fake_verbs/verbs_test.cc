// What the verbs backend posts and receives: batches, receives, back-pressure, checksums.
#include <array>
#include <catch2/catch.hpp>
#include <cstring>

#include "tests/transport/fake_verbs/verbs_stations.h"

namespace phub::transport {

TEST_CASE("a checksum lands behind its write, and counts in its length") {
  struct OddChecksums final : Checksums {
    const std::uint32_t* words = nullptr;
    const std::uint32_t* checksum(PeerId, std::uint32_t room) const override {
      return room % 2 == 1 ? words + room : nullptr;
    }
  };
  const auto pair = fresh_pair();
  // In registered memory, behind what the last room's write has.
  auto* const words = reinterpret_cast<std::uint32_t*>(
      pair->a.memory->data() + RoomBuffers::kRooms * RoomBuffers::kRoomBytes - 1024);
  OddChecksums checksums;
  checksums.words = words;
  static_cast<VerbsEndpoint&>(*pair->a.endpoint).send_checksums(checksums);
  for (std::uint32_t room = 0; room < 8; ++room) {
    words[room] = 0xC0FFEE00U + room;
    const Write write = room_write(pair->a, room, 100);
    REQUIRE(pair->a.endpoint->post(pair->a.peer, {&write, 1}) == 1);
    const auto arrived = collect(*pair->b.endpoint, 1);
    REQUIRE(arrived.size() == 1);
    REQUIRE(arrived[0].immediate == room);
    REQUIRE(arrived[0].bytes == (room % 2 == 1 ? 104 : 100));
    if (room % 2 == 0) continue;
    std::uint32_t word = 0;
    std::memcpy(&word, arrived[0].data + 100, sizeof(word));
    REQUIRE(word == words[room]);
  }
}

TEST_CASE("short polls and completions out of order between connections lose nothing") {
  const Clean clean;
  fake_verbs::behaviour().poll_limit = 3;
  fake_verbs::behaviour().shuffle = 7;
  Station to;
  Station from[2];
  std::uint32_t posted = 0;
  for (Station& sender : from) {
    const PeerId peer = join(sender, to);
    std::vector<Write> writes;
    for (std::uint32_t i = 0; i < 40; ++i) writes.push_back(room_write(sender.side, i, 64));
    REQUIRE(sender.endpoint->post(peer, writes) == writes.size());
    posted += 40;
  }
  const auto seen = collect(*to.endpoint, posted);
  REQUIRE(seen.size() == posted);
  std::array<std::uint32_t, 4> next = {};
  bool mixed = false;
  for (std::size_t i = 0; i < seen.size(); ++i) {
    CHECK(seen[i].immediate == next.at(seen[i].peer)++);
    mixed = mixed || (i > 0 && i < 40 && seen[i].peer != seen[0].peer);
  }
  CHECK(mixed);
}

TEST_CASE("a batch of sixteen writes rings one doorbell, and few of many are signaled") {
  const Clean clean;
  const auto pair = fresh_pair(256);
  const auto before = fake_verbs::counters();
  std::vector<Write> writes;
  for (std::uint32_t i = 0; i < 16; ++i) writes.push_back(room_write(pair->a, i));
  constexpr int kBatches = 64;
  std::vector<Completion> batch(64);
  for (int i = 0; i < kBatches; ++i) {
    REQUIRE(pair->a.endpoint->post(pair->a.peer, writes) == writes.size());
    REQUIRE(collect(*pair->b.endpoint, writes.size()).size() == writes.size());
    pair->a.endpoint->poll(batch);
  }
  const auto after = fake_verbs::counters();
  const std::uint64_t sent = after.sends - before.sends;
  CHECK(sent == kBatches * writes.size());
  CHECK(after.send_doorbells - before.send_doorbells == kBatches);
  CHECK((after.receive_doorbells - before.receive_doorbells) * 16 <= sent);
  CHECK((after.signaled - before.signaled) * 16 <= sent);
}

TEST_CASE("as many writes as were agreed on find a receive each, round after round") {
  const Clean clean;
  for (const std::uint32_t outstanding : {1U, 2U, 29U, 64U}) {
    INFO(outstanding << " writes");
    const auto pair = fresh_pair(outstanding);
    std::vector<Write> writes;
    for (std::uint32_t i = 0; i < outstanding; ++i) writes.push_back(room_write(pair->a, i, 64));
    for (int round = 0; round < 10; ++round) {
      std::vector<Completion> none(64);
      for (std::size_t posted = 0; posted < outstanding;) {
        posted += pair->a.endpoint->post(pair->a.peer, std::span(writes).subspan(posted));
        pair->a.endpoint->poll(none);  // retires what was sent
      }
      REQUIRE(collect(*pair->b.endpoint, outstanding).size() == outstanding);
    }
  }
  CHECK(fake_verbs::counters().not_ready == 0);
}

TEST_CASE("a send queue that is full is back-pressure, and goes on when the peer is ready") {
  const Clean clean;
  const auto pair = fresh_pair(16);
  fake_verbs::behaviour().hold = true;
  const std::vector<Write> writes(64, room_write(pair->a, 1, 128));
  const std::size_t accepted = pair->a.endpoint->post(pair->a.peer, writes);
  CHECK(accepted == 16);
  CHECK(pair->a.endpoint->room(pair->a.peer) == 0);
  fake_verbs::release();
  CHECK(collect(*pair->b.endpoint, accepted).size() == accepted);
  std::vector<Completion> batch(4);
  pair->a.endpoint->poll(batch);
  CHECK(pair->a.endpoint->room(pair->a.peer) >= 12);
}

TEST_CASE("queues follow the window: a peer that is far ahead waits, and all of it arrives") {
  const Clean clean;
  constexpr std::uint32_t kChunks = 1U << 22;  // 128 GiB of a core
  constexpr std::uint32_t kAhead = 10'000;
  const auto pair = fresh_pair(kChunks);
  std::uint32_t posted = 0;
  std::uint32_t arrived = 0;
  std::vector<Completion> batch(64);
  // The receiver looks only when nothing more can be posted.
  while (arrived < kAhead) {
    const Write write = room_write(pair->a, posted % RoomBuffers::kRooms, 64);
    pair->a.endpoint->poll(batch);
    if (posted < kAhead && pair->a.endpoint->post(pair->a.peer, {&write, 1}) == 1) {
      ++posted;
      continue;
    }
    const std::size_t count = pair->b.endpoint->poll(batch);
    for (std::size_t i = 0; i < count; ++i) {
      REQUIRE(batch[i].kind == CompletionKind::kArrived);
      REQUIRE(batch[i].immediate == (arrived + i) % RoomBuffers::kRooms);
    }
    arrived += static_cast<std::uint32_t>(count);
  }
  CHECK(posted == kAhead);
  CHECK(fake_verbs::counters().not_ready > 0);
}

}  // namespace phub::transport
