// What the verbs backend does when the device refuses or fails, or when a peer forges.
#include <catch2/catch.hpp>

#include "tests/transport/fake_verbs/verbs_stations.h"

namespace phub::transport {
namespace {

// Posts one write and returns how its peer was lost.
Loss loss_of(Side& side) {
  const Write write = room_write(side, 1);
  side.endpoint->post(side.peer, {&write, 1});
  for (const Completion& completion : collect(*side.endpoint, 1)) {
    if (completion.kind == CompletionKind::kPeerLost) return completion.loss;
  }
  return Loss::kNone;
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
  const PeerId good = join(honest, target);
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
  Station stranger;
  join(stranger, target);
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

}  // namespace phub::transport
