// What the verbs backend does when the device refuses, fails, reorders, or when a peer forges.
#include <array>
#include <catch2/catch.hpp>
#include <cstring>
#include <tuple>

#include "tests/support/transports/fake_verbs.h"
#include "tests/support/transports/verbs_pair.h"

namespace phub::transport {
namespace {

std::shared_ptr<const verbs::OpenDevice> device() { return *verbs::open_device("fake0", 1, 0); }

std::unique_ptr<EndpointPair> fresh_pair(std::uint32_t outstanding = 64) {
  return verbs_pair(device(), device(), outstanding);
}

Write room_write(Side& side, std::uint32_t room, std::uint32_t bytes = 32768) {
  return {.data = side.memory->data() + room * RoomBuffers::kRoomBytes,
          .bytes = bytes,
          .immediate = room};
}

// Posts one write and returns how its peer was lost.
Loss loss_of(Side& side) {
  const Write write = room_write(side, 1);
  side.endpoint->post(side.peer, {&write, 1});
  for (const Completion& completion : collect(*side.endpoint, 1)) {
    if (completion.kind == CompletionKind::kPeerLost) return completion.loss;
  }
  return Loss::kNone;
}

const RoomLayout kLayout;

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

PeerId join(Station& from, Station& to) {
  return join(from, to, [](verbs::Introduction&) {});
}

struct Clean {  // every test starts and ends with nothing
  Clean() { fake_verbs::reset(); }
  ~Clean() { fake_verbs::reset(); }
  Clean(const Clean&) = delete;
  Clean& operator=(const Clean&) = delete;
};

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

}  // namespace

TEST_CASE("each completion error ends the connection with its reason, and only that one") {
  const Clean clean;
  const std::vector<std::pair<ibv_wc_status, Loss>> cases = {
      {IBV_WC_RETRY_EXC_ERR, Loss::kClosed},   {IBV_WC_REM_ACCESS_ERR, Loss::kBadMemory},
      {IBV_WC_LOC_PROT_ERR, Loss::kBadMemory}, {IBV_WC_REM_INV_REQ_ERR, Loss::kBadLength},
      {IBV_WC_LOC_LEN_ERR, Loss::kBadLength},  {IBV_WC_RNR_RETRY_EXC_ERR, Loss::kError},
      {IBV_WC_WR_FLUSH_ERR, Loss::kError},     {IBV_WC_REM_OP_ERR, Loss::kError},
      {IBV_WC_FATAL_ERR, Loss::kError},        {IBV_WC_GENERAL_ERR, Loss::kError},
      {IBV_WC_LOC_QP_OP_ERR, Loss::kError},    {IBV_WC_RESP_TIMEOUT_ERR, Loss::kError}};
  const auto other = fresh_pair();
  for (const auto& [status, loss] : cases) {
    INFO("status " << status);
    const auto pair = fresh_pair();
    fake_verbs::fail_next_write(status);
    CHECK(loss_of(pair->a) == loss);
    std::vector<Completion> batch(4);
    CHECK(pair->a.endpoint->poll(batch) == 0);  // once
    const Write write = room_write(other->a, 2);
    REQUIRE(other->a.endpoint->post(other->a.peer, {&write, 1}) == 1);
    CHECK(collect(*other->b.endpoint, 1).size() == 1);
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

TEST_CASE("what the device refuses is named, with the limit and the cure") {
  const Clean clean;
  const auto opened = device();
  const auto domain = std::move(*verbs::make_domain(*opened));
  std::vector<std::byte> bytes(4096);

  fake_verbs::behaviour().registrations = 0;
  const auto refused =
      verbs::register_memory(*domain, std::span(bytes), verbs::RegionAccess::kWindow);
  REQUIRE(!refused);
  CHECK_THAT(refused.error().message(), Catch::Contains("memlock") && Catch::Contains("4 KiB"));
  fake_verbs::behaviour().registrations = -1;

  RoomBuffers receive_buffers;
  const auto region =
      std::move(*verbs::register_memory(*domain, std::span(bytes), verbs::RegionAccess::kWindow));
  const auto endpoint = std::move(*VerbsEndpoint::create(opened, 4, receive_buffers, kLayout));
  const VerbsRegions memory{.owner = nullptr,
                            .domain = domain.get(),
                            .source_key = region->lkey,
                            .window_key = region->rkey,
                            .window = bytes};
  fake_verbs::behaviour().max_qp_wr = 100;
  const auto deep = endpoint->connector().prepare(memory, 101);
  REQUIRE(!deep);
  CHECK_THAT(deep.error().message(), Catch::Contains("max_qp_wr") && Catch::Contains("chunks"));
  fake_verbs::behaviour().max_qp_wr = 16384;
  fake_verbs::behaviour().max_cqe = 1000;
  const auto wide = endpoint->connector().prepare(memory, 2000);
  REQUIRE(!wide);
  CHECK_THAT(wide.error().message(), Catch::Contains("max_cqe"));

  fake_verbs::behaviour().port_active = false;
  const auto down = verbs::open_device("fake0", 1, 0);
  REQUIRE(!down);
  CHECK_THAT(down.error().message(), Catch::Contains("fake0 port 1 is down"));
  const auto missing = verbs::open_device("mlx5_7", 1, 0);
  REQUIRE(!missing);
  CHECK_THAT(missing.error().message(), Catch::Contains("mlx5_7") && Catch::Contains("fake0"));
}

TEST_CASE("connections that are prepared and given up leave their room to others") {
  const Clean clean;
  fake_verbs::behaviour().max_cqe = 1000;
  Station station;
  for (int i = 0; i < 100; ++i) {
    INFO("connection " << i);
    const auto connection =
        station.endpoint->connector().prepare(verbs::regions_of(station.registered), 300);
    REQUIRE(connection);
  }
}

TEST_CASE("a forged write is refused by the device and ends only the forger") {
  const Clean clean;
  Station target;
  Station honest;
  Station stranger;
  const PeerId good = join(honest, target);
  join(stranger, target);
  const auto forged = [&](auto forge) {
    Station forger;
    const PeerId peer = join(forger, target, forge);
    const Write write = room_write(forger.side, 1, 256);
    CHECK(forger.endpoint->post(peer, {&write, 1}) == 1);
    const auto told = collect(*forger.endpoint, 1);
    const auto noticed = collect(*target.endpoint, 1);
    REQUIRE(told.size() == 1);
    REQUIRE(noticed.size() == 1);
    CHECK(told[0].loss == Loss::kBadMemory);
    CHECK(noticed[0].kind == CompletionKind::kPeerLost);
    CHECK(noticed[0].loss == Loss::kBadMemory);
    target.endpoint->remove(noticed[0].peer);
  };
  forged([](verbs::Introduction& peer) { peer.window_key += 1000; });           // no such key
  forged([](verbs::Introduction& peer) { peer.window_address -= 1U << 20U; });  // before the window
  forged([](verbs::Introduction& peer) { peer.window_address += 1U << 22U; });  // behind it
  // The key of a window of another protection domain, though it is a good one.
  forged([&](verbs::Introduction& peer) {
    peer.window_key = stranger.registered->window->rkey;
    peer.window_address = reinterpret_cast<std::uint64_t>(stranger.registered->window->addr);
  });
  const Write write = room_write(honest.side, 2);
  REQUIRE(honest.endpoint->post(good, {&write, 1}) == 1);
  const auto seen = collect(*target.endpoint, 1);
  REQUIRE(seen.size() == 1);
  CHECK(seen[0].kind == CompletionKind::kArrived);
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

TEST_CASE("a port that goes down under writes loses the peer, and nothing is left behind") {
  const Clean clean;
  {
    const auto pair = fresh_pair();
    fake_verbs::take_port_down();
    CHECK(loss_of(pair->a) == Loss::kClosed);
    // The other side writes nothing; it hears of the end when the stream closes.
    pair->a.endpoint->remove(pair->a.peer);
    const auto seen = collect(*pair->b.endpoint, 1);
    REQUIRE(seen.size() == 1);
    CHECK(seen[0].loss == Loss::kClosed);
  }
  CHECK(fake_verbs::live_objects() == 0);
}

TEST_CASE("removing a peer whose writes cannot leave waits for nothing, and connects again") {
  const Clean clean;
  for (int i = 0; i < 3; ++i) {
    const auto pair = fresh_pair();
    fake_verbs::behaviour().hold = true;
    const Write write = room_write(pair->a, 1);
    REQUIRE(pair->a.endpoint->post(pair->a.peer, {&write, 1}) == 1);
    const std::uint64_t polls = fake_verbs::counters().polls;
    pair->a.endpoint->remove(pair->a.peer);
    CHECK(fake_verbs::counters().polls == polls);  // what is in the queue is not taken
    fake_verbs::behaviour().hold = false;
  }
  CHECK(fake_verbs::live_objects() == 0);
}

TEST_CASE("a removed peer's last writes leave while its endpoint goes on") {
  const Clean clean;
  {
    const auto pair = fresh_pair();
    auto& endpoint = static_cast<VerbsEndpoint&>(*pair->a.endpoint);
    fake_verbs::behaviour().hold = true;
    const std::vector<Write> writes(3, room_write(pair->a, 1));
    REQUIRE(endpoint.post(pair->a.peer, writes) == 3);
    endpoint.remove(pair->a.peer);
    fake_verbs::release();
    while (endpoint.leaving() > 0) {
    }
    const auto seen = collect(*pair->b.endpoint, 4);
    REQUIRE(seen.size() == 4);
    for (std::size_t i = 0; i < 3; ++i) CHECK(seen[i].kind == CompletionKind::kArrived);
    CHECK(seen[3].loss == Loss::kClosed);
  }
  CHECK(fake_verbs::live_objects() == 0);
}

TEST_CASE("while a stuck peer is removed another's writes all arrive, in order") {
  const Clean clean;
  Station target;
  Station stuck;
  Station flooding;
  const PeerId stuck_at_target = [&] {
    VerbsConnection a = target.prepare();
    VerbsConnection b = stuck.prepare();
    std::tie(a.socket, b.socket) = stream_pair();
    a.peer = b.own;
    b.peer = a.own;
    REQUIRE(target.endpoint->connector().connect(a).ok());
    REQUIRE(stuck.endpoint->connector().connect(b).ok());
    REQUIRE(stuck.endpoint->add(std::move(b)));
    return *target.endpoint->add(std::move(a));
  }();
  const PeerId peer = join(flooding, target);
  std::vector<Write> writes;
  for (std::uint32_t i = 0; i < 48; ++i) writes.push_back(room_write(flooding.side, i, 64));
  REQUIRE(flooding.endpoint->post(peer, writes) == writes.size());
  fake_verbs::behaviour().hold = true;
  const Write write = room_write(target.side, 1);
  REQUIRE(target.endpoint->post(stuck_at_target, {&write, 1}) == 1);
  target.endpoint->remove(stuck_at_target);
  const auto seen = collect(*target.endpoint, writes.size());
  REQUIRE(seen.size() == writes.size());
  for (std::uint32_t i = 0; i < seen.size(); ++i) CHECK(seen[i].immediate == i);
  fake_verbs::behaviour().hold = false;
  std::vector<VerbsConnection> ended;
  ended.reserve(4);
  while (target.endpoint->leaving() > 0) {  // given up after its bound
  }
  target.endpoint->take_ended(ended);
  CHECK(ended.size() == 1);
}

TEST_CASE("what cannot leave is given up when its time is over, and not before") {
  using verbs::Departures;
  const Clean clean;
  Station from;
  Station to;
  VerbsConnection a = from.prepare();
  VerbsConnection b = to.prepare();
  a.peer = b.own;
  b.peer = a.own;
  REQUIRE(from.endpoint->connector().connect(a).ok());
  REQUIRE(to.endpoint->connector().connect(b).ok());
  fake_verbs::behaviour().hold = true;
  Departures departures(4);
  const auto now = Departures::Clock::now();
  departures.begin(std::move(a), {.tag = 1, .posted = 1, .retired = 0}, now);
  departures.look(now + Departures::kLongest - std::chrono::nanoseconds(1));
  CHECK(departures.leaving() == 1);
  departures.look(now + Departures::kLongest);
  CHECK(departures.leaving() == 0);
  std::vector<VerbsConnection> ended;
  ended.reserve(4);
  departures.take_ended(ended);
  CHECK(ended.size() == 1);
}

TEST_CASE("what is left of removed peers is for another thread to destroy") {
  const Clean clean;
  const auto pair = fresh_pair();
  auto& endpoint = static_cast<VerbsEndpoint&>(*pair->a.endpoint);
  const int objects = fake_verbs::live_objects();
  endpoint.remove(pair->a.peer);
  while (endpoint.leaving() > 0) {
  }
  CHECK(fake_verbs::live_objects() == objects);
  {
    std::vector<VerbsConnection> ended;
    ended.reserve(4);
    endpoint.take_ended(ended);
    CHECK(ended.size() == 1);
  }
  CHECK(fake_verbs::live_objects() == objects - 1);  // the queue pair
}

}  // namespace phub::transport
