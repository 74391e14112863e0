// Nothing on the data path allocates between the first push and the last answer: a data plane and
// two workers in one process, with a counting operator new.
#include <atomic>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <new>
#include <thread>

#include "server/data_plane.h"
#include "worker/client/data_connection.h"
#include "worker/client/exchange.h"

namespace {
std::atomic<bool> counting{false};
std::atomic<std::uint64_t> allocations{0};
}  // namespace

void* operator new(std::size_t bytes) {
  if (counting.load(std::memory_order_relaxed)) allocations.fetch_add(1);
  if (void* memory = std::malloc(bytes)) return memory;  // NOLINT(*-no-malloc)
  std::abort();
}
void operator delete(void* memory) noexcept { std::free(memory); }               // NOLINT
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }  // NOLINT

namespace phub {
namespace {

constexpr std::uint64_t kJob = 7;
constexpr std::uint32_t kWorkers = 2;

class OneSecret final : public server::Membership {
 public:
  std::optional<server::Secret> secret_of(std::uint64_t, std::uint32_t, std::uint32_t) override {
    return server::Secret{};
  }
  void on_connected(std::uint64_t, std::uint32_t, std::uint32_t, std::string_view) override {}
  void on_lost(std::uint64_t, std::uint32_t, std::string_view) override {}
};

struct Worker {
  std::unique_ptr<SharedMemory> memory;
  std::vector<std::byte> parameters;
  std::unique_ptr<client::Exchange> exchange;

  Worker(const server::DataPlane& plane, const std::shared_ptr<const Plan>& plan,
         std::uint32_t index, bool shm) {
    const std::size_t arena = plan->arena_elements * sizeof(float);
    const std::size_t hyper = wire::hyper_bytes(plane.cores());
    memory = std::move(*SharedMemory::create("worker", hyper + arena));
    parameters.resize(arena);
    exchange = std::move(*client::Exchange::create(plan, DataType::kFloat32, index == 0));
    exchange->use_memory({memory->data(), memory->data() + hyper, parameters.data()});
    client::JoinInfo joined;
    joined.job_id = kJob;
    joined.epoch = 1;
    joined.worker_index = index;
    joined.host = "127.0.0.1";
    joined.tcp_port = plane.tcp_port();
    joined.shm_socket = plane.shm_socket();
    for (std::uint32_t core = 0; core < plane.cores(); ++core) {
      const client::DataTarget target{
          .joined = &joined, .core = core, .timeout = std::chrono::milliseconds(5000)};
      if (shm) {
        const std::uint32_t capacity = transport::channel_capacity(
            static_cast<std::uint32_t>(plan->core_chunks[0][core].size()));
        REQUIRE(
            exchange
                ->connect_shm(0, core, 1, std::move(*client::open_shm(target, *memory, capacity)))
                .ok());
      } else {
        REQUIRE(exchange->connect_tcp(0, core, 1, std::move(*client::open_tcp(target))).ok());
      }
    }
  }
};

bool run_rounds(std::vector<std::unique_ptr<Worker>>& workers, KeyId keys, int rounds) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  for (int round = 0; round < rounds; ++round) {
    for (auto& worker : workers) {
      worker->exchange->set_hyper({.learning_rate = 0.1F});
      for (KeyId key = keys; key-- > 0;) worker->exchange->start(key);
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

TEST_CASE("rounds over shm and tcp allocate nothing, on either side") {
  for (const bool shm : {true, false}) {
    OneSecret membership;
    server::DataPlaneOptions options;
    options.cores = 2;
    options.allow_oversubscription = true;
    const auto plane = std::move(*server::DataPlane::create(options, membership));
    PlanInput input;
    input.key_elements = {100, 300'000, 17, 8192};
    input.cores_per_server = {2};
    const auto plan = std::make_shared<const Plan>(std::move(*make_plan(input)));
    server::JobShape shape;
    shape.job_id = kJob;
    shape.workers = kWorkers;
    shape.rule = RuleKind::kMomentum;
    shape.deterministic = shm;
    shape.weight_decay = {0, 0, 0, 0};
    shape.plan = plan;
    REQUIRE(plane->create_job(shape).ok());
    std::vector<std::unique_ptr<Worker>> workers;
    for (std::uint32_t w = 0; w < kWorkers; ++w) {
      workers.push_back(std::make_unique<Worker>(*plane, plan, w, shm));
    }
    REQUIRE(run_rounds(workers, 4, 3));  // libraries may allocate at their first use
    allocations = 0;
    counting = true;
    const bool done = run_rounds(workers, 4, 20);
    counting = false;
    CHECK(done);
    CHECK(allocations == 0);
    workers.clear();
    plane->remove_job(kJob);
  }
}

}  // namespace phub
