// What local workers share with a data plane: no more than the plan says, mapped once, and unmapped
// by nobody who is in a hurry. Memory of other servers' chunks takes no addresses here.
#include <sys/mman.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <fstream>
#include <mutex>
#include <string>
#include <thread>

#include "common/connect/data_connection.h"
#include "common/exchange/exchange.h"
#include "common/protocol/window_layout.h"
#include "server/plane/data_plane.h"

namespace phub {
namespace {

using Catch::Matchers::Contains;

constexpr std::uint32_t kCores = 3;

class SharedMembers final : public server::MembershipListener {
 public:
  std::optional<server::IssuedSecret> secret_of(std::uint64_t, std::uint32_t,
                                                std::uint32_t) override {
    return server::IssuedSecret{};
  }
  void on_connected(std::uint64_t, std::uint32_t, std::uint32_t, std::string_view) override {}
  void on_lost(std::uint64_t, std::uint32_t, std::string_view reason) override {
    const std::lock_guard lock(mutex_);
    reasons_ += std::string(reason) + "; ";
  }
  std::string reasons() {
    const std::lock_guard lock(mutex_);
    return reasons_;
  }

 private:
  std::mutex mutex_;
  std::string reasons_;
};

struct SharedPlane {
  SharedMembers members;
  std::unique_ptr<server::DataPlane> plane;
  std::shared_ptr<const Plan> plan;

  SharedPlane() {
    server::DataPlaneOptions options;
    options.cores = kCores;
    options.allow_oversubscription = true;
    options.verbs = server::OfferVerbs::kNo;
    plane = std::move(*server::DataPlane::create(options, members));
    plan = std::make_shared<const Plan>(
        std::move(*make_plan({.key_elements = {300'000}, .cores_per_server = {kCores}})));
  }
  void create(std::uint64_t job, std::uint32_t workers) const {
    server::JobLayout layout;
    layout.job_id = job;
    layout.workers = workers;
    layout.weight_decay = {0};
    layout.plan = plan;
    const Status created = plane->create_job(layout);
    INFO(created.message());
    REQUIRE(created.ok());
  }
};

// A local worker that shares what it likes.
struct SharedWorker {
  client::JoinInfo joined;
  std::shared_ptr<const Plan> plan;
  std::unique_ptr<SharedMemory> memory;
  std::unique_ptr<client::Exchange> exchange;

  SharedWorker(const SharedPlane& plane, std::uint64_t job, std::uint32_t index)
      : plan(plane.plan) {
    joined.job_id = job;
    joined.epoch = 1;
    joined.worker_index = index;
    joined.seat = index;
    joined.shm_socket = plane.plane->shm_socket();
    exchange = std::make_unique<client::Exchange>(plan, DataType::kFloat32, index == 0);
  }
  std::size_t planned_bytes() const { return shared_memory_bytes(*plan, sizeof(float)); }
  void share(std::size_t bytes, const std::string& name = "phub-shared") {
    memory = std::move(*SharedMemory::create(name, bytes));
    REQUIRE(memory->commit().ok());
  }
  std::uint32_t planned_capacity(std::uint32_t core) const {
    return transport::channel_capacity(
        static_cast<std::uint32_t>(plan->core_chunks[0][core].size()));
  }
  Result<transport::ShmConnection> open(std::uint32_t core, std::uint32_t capacity) const {
    const client::DataTarget target{
        .joined = &joined, .core = core, .timeout = std::chrono::seconds(60)};
    return client::open_shm(target, *memory, capacity);
  }
  Status connect(std::uint32_t core) {
    auto connection = open(core, planned_capacity(core));
    if (!connection) return connection.error();
    return exchange->connect(**exchange->lanes().shm(), {0, core, 1}, std::move(*connection));
  }
  bool round() {
    exchange->use_memory(
        {memory->data(), memory->data() + planned_bytes() - plan->arena_elements * 4, nullptr});
    exchange->start(0);
    while (!exchange->idle() && !exchange->loss()) {
      if (!exchange->run_once()) std::this_thread::yield();
    }
    return exchange->idle();
  }
};

// How often memory of this name is mapped in this process, which is server and worker.
std::size_t mappings_of(const std::string& name) {
  std::ifstream maps("/proc/self/maps");
  std::size_t count = 0;
  for (std::string line; std::getline(maps, line);) {
    if (line.find("/memfd:" + name + " ") != std::string::npos) ++count;
  }
  return count;
}

std::uint64_t address_space_mib() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmSize:")) return std::stoull(line.substr(7)) >> 10U;
  }
  return 0;
}

template <typename Condition>
bool until_true(Condition condition) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::yield();
  }
  return true;
}

}  // namespace

TEST_CASE("a worker that shares more or less than the plan is refused by name, and no other") {
  SharedPlane plane;
  plane.create(1, 2);
  plane.create(2, 1);
  for (const std::ptrdiff_t beside : {-4096, 4096, 1 << 30}) {
    SharedWorker worker(plane, 1, 0);
    // Sparse where it is large: what is not the plan's size is refused before it is looked at.
    const std::size_t bytes = worker.planned_bytes() + static_cast<std::size_t>(beside);
    worker.memory = std::move(*SharedMemory::create("phub-shared", bytes));
    CHECK_FALSE(worker.connect(0).ok());
    CHECK_THAT(plane.members.reasons(),
               Contains("it shares " + std::to_string(bytes) + " bytes, the plan has"));
  }
  SharedWorker honest(plane, 2, 0);
  honest.share(honest.planned_bytes());
  for (std::uint32_t core = 0; core < kCores; ++core) REQUIRE(honest.connect(core).ok());
  CHECK(honest.round());
}

TEST_CASE("a connection of another epoch, worker or core, or a second one, is nobody's") {
  SharedPlane plane;
  plane.create(1, 2);
  const auto is_taken = [&](std::uint32_t epoch, std::uint32_t index, std::uint32_t core) {
    SharedWorker worker(plane, 1, index);
    worker.joined.epoch = epoch;
    worker.share(worker.planned_bytes());
    return worker.open(core, worker.planned_capacity(0)).has_value();
  };
  CHECK_FALSE(is_taken(2, 0, 0));
  CHECK_FALSE(is_taken(1, 2, 0));
  CHECK_FALSE(is_taken(1, 0, kCores));
  SharedWorker worker(plane, 1, 1);
  worker.share(worker.planned_bytes());
  REQUIRE(worker.connect(0).ok());
  CHECK_FALSE(worker.connect(0).ok());
  CHECK(plane.members.reasons().empty());  // no member is lost by it
}

TEST_CASE("a channel that takes more notices than the plan has is refused") {
  SharedPlane plane;
  plane.create(1, 1);
  SharedWorker worker(plane, 1, 0);
  worker.share(worker.planned_bytes());
  CHECK_FALSE(worker.open(0, 2 * worker.planned_capacity(0)));
  CHECK_THAT(plane.members.reasons(), Contains("notices, the plan's"));
}

TEST_CASE("memory with holes, and another memory for another core, are refused") {
  SharedPlane plane;
  plane.create(1, 2);
  SharedWorker sparse(plane, 1, 0);
  sparse.memory = std::move(*SharedMemory::create("phub-shared", sparse.planned_bytes()));
  REQUIRE(sparse.memory->share_read_only());
  CHECK_FALSE(sparse.connect(0).ok());
  CHECK_THAT(plane.members.reasons(), Contains("must fill it"));
  SharedWorker worker(plane, 1, 1);
  worker.share(worker.planned_bytes());
  REQUIRE(worker.connect(0).ok());
  const auto first = std::move(worker.memory);
  worker.share(worker.planned_bytes());
  CHECK_FALSE(worker.connect(1).ok());
  CHECK_THAT(plane.members.reasons(), Contains("another memory"));
}

TEST_CASE("a worker's memory is mapped once, and unmapped by who removes the job") {
  SharedPlane plane;
  plane.create(1, 1);
  const std::string name = "phub-once";
  {
    SharedWorker worker(plane, 1, 0);
    worker.share(worker.planned_bytes(), name);
    for (std::uint32_t core = 0; core < kCores; ++core) REQUIRE(worker.connect(core).ok());
    CHECK(mappings_of(name) == 2);  // the worker's and the server's
    CHECK(worker.round());
  }
  // The worker is gone, all of its connections are lost, and the cores have let go of it.
  REQUIRE(until_true([&] {
    std::uint32_t connections = 0;
    for (const auto& core : plane.plane->core_counters()) connections += core.connections;
    return connections == 0;
  }));
  CHECK(mappings_of(name) == 1);
  plane.plane->remove_job(1);
  CHECK(mappings_of(name) == 0);
}

TEST_CASE("chunks that lie on another server take no addresses here") {
  SharedPlane plane;
  const std::uint64_t before = address_space_mib();
  server::JobLayout layout;
  layout.job_id = 1;
  layout.rule = RuleKind::kMomentum;
  layout.weight_decay = {0, 0};
  // All of a terabyte goes to the second server, as the cores of the first one are said to be full.
  PlanInput input{.key_elements = {std::uint64_t{1} << 38},
                  .chunk_bytes = kMaxChunkBytes,
                  .cores_per_server = {kCores, 1},
                  .core_load_bytes = {1ULL << 50, 1ULL << 50, 1ULL << 50, 0}};
  layout.plan = std::make_shared<const Plan>(std::move(*make_plan(input)));
  REQUIRE(layout.plan->core_chunks[1][0].size() == layout.plan->chunks.size());
  REQUIRE(plane.plane->create_job(layout).ok());
  CHECK(address_space_mib() < before + 1024);
  REQUIRE(plane.plane->job_counters(1));
  CHECK(plane.plane->job_counters(1)->memory_bytes < 64U << 20U);
  plane.plane->remove_job(1);
}

TEST_CASE("parameters count as they come into memory, chunk by chunk") {
  SharedPlane plane;
  plane.create(1, 1);
  const std::uint64_t empty = plane.plane->job_counters(1)->memory_bytes;
  SharedWorker worker(plane, 1, 0);
  worker.share(worker.planned_bytes());
  for (std::uint32_t core = 0; core < kCores; ++core) REQUIRE(worker.connect(core).ok());
  REQUIRE(worker.round());
  const std::uint64_t used = plane.plane->job_counters(1)->memory_bytes;
  CHECK(used - empty == 300'000 * sizeof(float));
  REQUIRE(worker.round());
  CHECK(plane.plane->job_counters(1)->memory_bytes == used);
}

}  // namespace phub
