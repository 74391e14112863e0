// What a worker may reach of a server's memory: its own window, and nothing else, whatever it puts
// into its work requests. On the fake device, and on real ones where there are any (tests/rdma).
#include <catch2/catch.hpp>
#include <chrono>
#include <cstring>

#include "server/plane/windows/verbs_memory.h"
#include "tests/support/hang_guard.h"
#include "tests/support/transports/endpoint_pair.h"
#include "tests/support/transports/rdma_devices.h"

namespace phub::transport {
namespace {

constexpr std::uint32_t kWriteBytes = 4096;
constexpr std::uint32_t kSlot = 0;

// A worker that posts what it likes: a queue pair without an endpoint around it.
struct Stranger {
  std::shared_ptr<const verbs::OpenDevice> device = rdma_devices().back();
  std::vector<std::byte> memory = std::vector<std::byte>(kWriteBytes, std::byte{0xAB});
  verbs::Domain domain = std::move(*verbs::make_domain(*device));
  verbs::Registration source =
      std::move(*verbs::register_memory(*domain, std::span(memory), verbs::RegionAccess::kWindow));
  verbs::CompletionQueue completions{ibv_create_cq(device->context.get(), 16, nullptr, nullptr, 0)};
  verbs::QueuePair pair =
      std::move(*verbs::create_queue_pair(*domain, *completions, {.send = 4, .receive = 4}));
  UniqueFd socket;
  verbs::Introduction target;  // what the server told

  verbs::Introduction introduction() const {
    return {.queue_pair = pair->qp_num,
            .window_key = source->rkey,
            .window_address = reinterpret_cast<std::uint64_t>(memory.data()),
            .window_bytes = memory.size(),
            .gid = device->address.gid,
            .lid = device->address.lid,
            .mtu = device->address.mtu,
            .global = static_cast<std::uint8_t>(device->address.global)};
  }

  // How the device says that it went.
  ibv_wc_status post(std::uint32_t key, std::uint64_t address) {
    ibv_sge range = {.addr = reinterpret_cast<std::uint64_t>(memory.data()),
                     .length = kWriteBytes,
                     .lkey = source->lkey};
    ibv_send_wr request = {};
    request.sg_list = &range;
    request.num_sge = 1;
    request.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
    request.send_flags = IBV_SEND_SIGNALED;
    request.imm_data = kSlot;
    request.wr.rdma.remote_addr = address;
    request.wr.rdma.rkey = key;
    ibv_send_wr* bad = nullptr;
    REQUIRE(ibv_post_send(pair.get(), &request, &bad) == 0);
    ibv_wc done = {};
    const auto deadline = std::chrono::steady_clock::now() + testing::kHangGuard;
    while (ibv_poll_cq(completions.get(), 1, &done) == 0) {
      REQUIRE(std::chrono::steady_clock::now() < deadline);
    }
    return done.status;
  }
};

// A server's core with the memory of one job of two workers.
struct Target final : ReceiveBuffers, Layout {
  server::JobLayout layout;
  std::shared_ptr<server::JobMemory> job;
  std::shared_ptr<server::VerbsMemory> memory;
  std::unique_ptr<VerbsEndpoint> endpoint;
  std::vector<std::byte*> windows;  // by peer

  Target() : windows(8) {
    layout.workers = 2;
    layout.weight_decay = {0.0F};
    PlanInput input;
    input.key_elements = {4 * kWriteBytes};
    input.chunk_bytes = kWriteBytes;
    input.cores_per_server = {1};
    layout.plan = std::make_shared<const Plan>(std::move(*make_plan(input)));
    job = std::move(*server::JobMemory::create(layout));
    const auto& device = rdma_devices().front();
    memory = std::move(*server::VerbsMemory::create(device, job, layout, {0}));
    endpoint = std::move(*VerbsEndpoint::create(device, 8, *this, *this));
  }

  std::byte* acquire(PeerId peer, std::uint32_t, std::uint32_t) override { return windows[peer]; }
  void release(PeerId, std::byte*) override {}
  std::uint64_t offset(PeerId, const Write&) const override { return 0; }

  PeerId let_in(Stranger& stranger, std::uint32_t worker) {
    auto connection = std::move(*endpoint->connector().prepare(*memory->of(worker, 0), 4));
    std::tie(connection.socket, stranger.socket) = stream_pair();
    connection.peer = stranger.introduction();
    stranger.target = connection.own;
    const std::byte* window = memory->of(worker, 0)->window.data();
    REQUIRE(endpoint->connector().connect(connection).ok());
    REQUIRE(verbs::to_init(*stranger.pair, stranger.device->address).ok());
    REQUIRE(verbs::connect(*stranger.pair, stranger.device->address, 0, connection.own).ok());
    const PeerId peer = *endpoint->add(std::move(connection));
    windows[peer] = const_cast<std::byte*>(window);
    return peer;
  }
};

bool is_untouched(std::span<const std::byte> memory) {
  return std::all_of(memory.begin(), memory.end(), [](std::byte b) { return b == std::byte{0}; });
}

}  // namespace

TEST_CASE("whatever a worker forges, it reaches its own window only and ends itself only") {
  Target target;
  Stranger honest;
  const PeerId good = target.let_in(honest, 1);
  const std::span<std::byte> victim = target.memory->of(1, 0)->window;
  const auto address_of = [](const std::byte* at) { return reinterpret_cast<std::uint64_t>(at); };

  struct Forgery {
    const char* what;
    std::uint32_t key;
    std::uint64_t address;
  };
  const auto forgeries = [&](const verbs::Introduction& own) {
    const std::uint64_t behind = own.window_address + own.window_bytes;
    const std::uint64_t parameters = address_of(target.job->published->data());
    return std::vector<Forgery>{
        {"a key that nobody has", own.window_key + 0x10000, own.window_address},
        {"its key's neighbour", own.window_key ^ 1U, own.window_address},
        {"before its window", own.window_key, own.window_address - kWriteBytes},
        {"across its window's end", own.window_key, behind - kWriteBytes / 2},
        {"behind its window", own.window_key, behind},
        {"another worker's slot, with its own key", own.window_key, address_of(victim.data())},
        {"another worker's slot, with that one's key", honest.target.window_key,
         address_of(victim.data())},
        {"the parameters, with its own key", own.window_key, parameters},
        {"the parameters, with their key", target.memory->of(0, 0)->source_key, parameters}};
  };
  for (std::size_t i = 0; i < forgeries({}).size(); ++i) {
    Stranger forger;
    const PeerId peer = target.let_in(forger, 0);
    const Forgery forgery = forgeries(forger.target)[i];
    INFO(forgery.what);
    CHECK(forger.post(forgery.key, forgery.address) == IBV_WC_REM_ACCESS_ERR);
    const auto noticed = collect(*target.endpoint, 1);
    REQUIRE(noticed.size() == 1);
    CHECK(noticed[0].kind == CompletionKind::kPeerLost);
    CHECK(noticed[0].peer == peer);
    CHECK(noticed[0].loss == Loss::kBadMemory);
    target.endpoint->remove(peer);
    CHECK(is_untouched(victim));
    CHECK(is_untouched({target.job->published->data(), target.job->published->size()}));
  }

  CHECK(honest.post(honest.target.window_key, honest.target.window_address) == IBV_WC_SUCCESS);
  const auto arrived = collect(*target.endpoint, 1);
  REQUIRE(arrived.size() == 1);
  CHECK(arrived[0].kind == CompletionKind::kArrived);
  CHECK(arrived[0].peer == good);
  CHECK(std::memcmp(victim.data(), honest.memory.data(), kWriteBytes) == 0);
}

TEST_CASE("a thousand connections to one core leave nothing behind") {
  Target target;
  const auto cycle = [&] {
    Stranger worker;
    const PeerId peer = target.let_in(worker, 0);
    REQUIRE(worker.post(worker.target.window_key, worker.target.window_address) == IBV_WC_SUCCESS);
    worker.socket = {};  // it leaves
    const auto seen = collect(*target.endpoint, 2);
    REQUIRE(seen.size() == 2);
    REQUIRE(seen[0].kind == CompletionKind::kArrived);
    REQUIRE(seen[1].loss == Loss::kClosed);
    target.endpoint->remove(peer);
    std::vector<VerbsConnection> ended;  // and what is left of it is destroyed
    ended.reserve(1);
    target.endpoint->take_ended(ended);
    REQUIRE(ended.size() == 1);
  };
  cycle();
  const int level = live_rdma_objects();
  REQUIRE(level > 0);
  for (int i = 0; i < 1000; ++i) cycle();
  CHECK(live_rdma_objects() == level);
}

}  // namespace phub::transport
