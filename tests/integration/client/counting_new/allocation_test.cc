// Nothing on the data path allocates between the first push and the last reply: a data plane and
// two workers in one process, with a counting operator new.
#include <openssl/crypto.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <thread>

#include "common/connect/data_connection.h"
#include "common/connect/verbs_ports.h"
#include "common/exchange/exchange.h"
#include "common/protocol/wire.h"
#include "server/plane/data_plane.h"
#include "tests/support/hang_guard.h"
#include "tests/support/main/counting_new.h"
#include "tests/support/server/lone_plane.h"
#include "tests/support/transports/fake_verbs.h"
#include "worker/compress/compressor.h"

namespace {
using phub::testing::allocations;
using phub::testing::counting;

// OpenSSL's own, which do not come through operator new.
void* openssl_malloc(std::size_t bytes, const char*, int) {
  if (counting.load(std::memory_order_relaxed)) allocations.fetch_add(1);
  return std::malloc(bytes);  // NOLINT(*-no-malloc)
}
void* openssl_realloc(void* memory, std::size_t bytes, const char*, int) {
  if (counting.load(std::memory_order_relaxed)) allocations.fetch_add(1);
  return std::realloc(memory, bytes);  // NOLINT(*-no-malloc)
}
void openssl_free(void* memory, const char*, int) { std::free(memory); }  // NOLINT(*-no-malloc)
const bool counts_openssl =
    CRYPTO_set_mem_functions(openssl_malloc, openssl_realloc, openssl_free) == 1;
}  // namespace

namespace phub {
namespace {

constexpr std::uint64_t kJob = 7;
constexpr std::uint32_t kWorkers = 2;
const std::vector<std::uint64_t> kElements = {100, 300'000, 17, 8192};

struct Worker {
  std::unique_ptr<SharedMemory> memory;
  std::vector<std::byte> parameters;
  std::unique_ptr<client::VerbsPorts> ports;
  std::unique_ptr<client::Exchange> exchange;
  std::byte* gradients = nullptr;
  std::optional<compress::Compressor> compressor;

  Worker(const server::DataPlane& plane, const std::shared_ptr<const Plan>& plan,
         std::uint32_t index, const std::string& transport) {
    const std::size_t arena = plan->arena_elements * sizeof(float);
    const std::size_t hyper = wire::hyper_bytes(plane.cores());
    memory = std::move(*SharedMemory::create("worker", hyper + arena));
    REQUIRE(memory->commit().ok());
    parameters.resize(arena);
    exchange = std::make_unique<client::Exchange>(plan, DataType::kFloat32, index == 0);
    gradients = memory->data() + hyper;
    exchange->use_memory(
        {.hyper = memory->data(), .gradients = gradients, .parameters = parameters.data()});
    client::JoinInfo joined;
    joined.job_id = kJob;
    joined.epoch = 1;
    joined.worker_index = index;
    joined.seat = index;
    joined.host = "127.0.0.1";
    joined.tcp_port = plane.tcp_port();
    joined.encrypts_data = plane.encrypts_tcp();
    joined.shm_socket = plane.shm_socket();
    for (const server::CorePort& port : plane.verbs_ports()) {
      joined.rdma.push_back({port.device, port.link_layer, port.gid});
    }
    for (std::uint32_t core = 0; core < plane.cores(); ++core) {
      const client::DataTarget target{
          .joined = &joined, .core = core, .timeout = testing::kHangGuard};
      if (transport == "verbs") {
        connect_verbs(*plan, target);
      } else if (transport == "shm") {
        const std::uint32_t capacity = transport::channel_capacity(
            static_cast<std::uint32_t>(plan->core_chunks[0][core].size()));
        REQUIRE(exchange
                    ->connect(**exchange->lanes().shm(), {0, core, 1},
                              std::move(*client::open_shm(target, *memory, capacity)))
                    .ok());
      } else {
        REQUIRE(exchange
                    ->connect(**exchange->lanes().tcp(), {0, core, 1},
                              std::move(*client::open_tcp(target)))
                    .ok());
      }
    }
  }

  // From now on. Its gradients are 0, of which it pushes the first ones.
  void compress(const Plan& plan, Encoding encoding) {
    if (encoding == Encoding::kDense) return;
    std::vector<KeySpec> keys;
    for (const std::uint64_t elements : kElements) keys.push_back({"", elements});
    compressor.emplace(plan, keys, DataType::kFloat32, CompressOptions{.encoding = encoding});
    exchange->push_only(compressor->push_bytes());
  }

  void start(KeyId key) {
    if (compressor) compressor->compress(key, gradients);
    exchange->start(key);
  }

  void connect_verbs(const Plan& plan, const client::DataTarget& target) {
    if (!ports) ports = std::move(*client::VerbsPorts::create({}, std::nullopt));
    const auto device = *ports->towards(target.joined->rdma[target.core], target.core);
    const auto parts =
        *ports->memory_on(device, {memory->data(), memory->size()}, std::span(parameters));
    transport::VerbsEndpoint* endpoint = *exchange->lanes().verbs_on(device);
    const auto chunks = static_cast<std::uint32_t>(plan.core_chunks[0][target.core].size());
    auto connection = std::move(*endpoint->connector().prepare(parts, chunks + 2));
    REQUIRE(client::open_verbs(target, connection).ok());
    REQUIRE(endpoint->connector().connect(connection).ok());
    REQUIRE(exchange->connect(*endpoint, {0, target.core, 1}, std::move(connection)).ok());
  }
};

bool run_rounds(std::vector<std::unique_ptr<Worker>>& workers, KeyId keys, int rounds, bool votes) {
  const auto deadline = std::chrono::steady_clock::now() + testing::kHangGuard;
  for (int round = 0; round < rounds; ++round) {
    for (auto& worker : workers) {
      worker->exchange->set_hyper({.learning_rate = 0.1F});
      for (KeyId key = keys; key-- > 0;) worker->start(key);
      if (votes) worker->exchange->vote({.overflow = round % 3 == 2 ? 1U : 0U});
    }
    bool idle = false;
    while (!idle && std::chrono::steady_clock::now() < deadline) {
      idle = true;
      for (auto& worker : workers) {
        if (!worker->exchange->run_once()) std::this_thread::yield();
        if (worker->exchange->loss()) return false;
        idle = idle && worker->exchange->idle();
      }
    }
    if (!idle) return false;
  }
  return true;
}

}  // namespace

TEST_CASE("rounds over shm, tcp, encrypted tcp and verbs allocate nothing, on either side") {
  REQUIRE(counts_openssl);
  for (const std::string name : {"shm", "tcp", "encrypted tcp", "verbs", "shm, votes", "tcp, votes",
                                 "verbs, votes", "shm, clips", "tcp, clips", "shm, sparse",
                                 "tcp, sparse", "verbs, sparse", "shm, int4", "tcp, int4"}) {
    INFO(name);
    const bool votes = name.find("votes") != std::string::npos;  // and whole keys
    const std::string transport =
        name.starts_with("encrypted") ? "tcp" : name.substr(0, name.find(','));
    testing::AnyMember membership;
    server::DataPlaneOptions options;
    options.cores = 2;
    options.allow_oversubscription = true;
    options.encrypt_tcp = name == "encrypted tcp";
    const auto plane = std::move(*server::DataPlane::create(options, membership));
    PlanInput input;
    input.key_elements = kElements;
    input.cores_per_server = {2};
    input.whole_keys = votes;
    const auto plan = std::make_shared<const Plan>(std::move(*make_plan(input)));
    server::JobLayout layout;
    layout.job_id = kJob;
    layout.workers = kWorkers;
    layout.rule = RuleKind::kMomentum;
    layout.deterministic = transport != "tcp";
    layout.weight_decay = {0, 0, 0, 0};
    if (votes) {
      layout.rule = RuleKind::kLars;
      layout.loss_scale.kind = LossScaling::kVoted;
    }
    if (name.ends_with("clips")) {
      layout.rule = RuleKind::kAdamW;
      layout.adaptive.epsilon = 1e-8;
      layout.clip_norm = 1.0F;
      layout.ema_decay = 0.9;
    }
    if (name.ends_with("sparse")) layout.encoding = Encoding::kSparse;
    if (name.ends_with("int4")) layout.encoding = Encoding::kInt4;
    layout.plan = plan;
    REQUIRE(plane->create_job(layout).ok());
    std::vector<std::unique_ptr<Worker>> workers;
    for (std::uint32_t w = 0; w < kWorkers; ++w) {
      workers.push_back(std::make_unique<Worker>(*plane, plan, w, transport));
    }
    REQUIRE(run_rounds(workers, 4, 1, false));  // initial parameters: nobody votes on them
    for (auto& worker : workers) worker->compress(*plan, layout.encoding);
    REQUIRE(run_rounds(workers, 4, 3, votes));  // libraries may allocate at their first use
    allocations = 0;
    counting = true;
    const bool done = run_rounds(workers, 4, 20, votes);
    counting = false;
    CHECK(done);
    CHECK(allocations == 0);
    workers.clear();
    plane->remove_job(kJob);
  }
}

}  // namespace phub
