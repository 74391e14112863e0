// What a running job holds beyond the memory it was admitted with is told, for its tenant's quota.
#include <atomic>
#include <catch2/catch.hpp>
#include <thread>

#include "common/connect/data_connection.h"
#include "common/exchange/exchange.h"
#include "common/protocol/wire.h"
#include "server/plane/data_plane.h"
#include "tests/support/hang_guard.h"
#include "tests/support/server/lone_plane.h"

namespace phub::testing {
namespace {

constexpr std::uint64_t kPlaneJob = 1;
constexpr KeyId kPlaneKeys = 600;
constexpr std::uint64_t kPlaneElements = 8192;
constexpr std::uint64_t kKeyBytes = kPlaneElements * sizeof(float);

struct MemoryWorker {
  std::vector<std::byte> hyper;
  std::vector<std::byte> gradients;
  std::vector<std::byte> parameters;
  std::unique_ptr<client::Exchange> exchange;

  MemoryWorker(const server::DataPlane& plane, const std::shared_ptr<const Plan>& plan,
               std::uint32_t index)
      : hyper(wire::hyper_bytes(1)),
        gradients(plan->arena_elements * sizeof(float)),
        parameters(gradients.size()),
        exchange(std::make_unique<client::Exchange>(plan, DataType::kFloat32, index == 0)) {
    exchange->use_memory(
        {.hyper = hyper.data(), .gradients = gradients.data(), .parameters = parameters.data()});
    client::JoinInfo joined;
    joined.job_id = kPlaneJob;
    joined.epoch = 1;
    joined.worker_index = index;
    joined.seat = index;
    joined.cores = 1;
    joined.host = "127.0.0.1";
    joined.tcp_port = plane.tcp_port();
    auto stream = client::open_tcp({.joined = &joined, .timeout = kHangGuard});
    REQUIRE(stream);
    REQUIRE(exchange->connect(**exchange->lanes().tcp(), {0, 0, 1}, std::move(*stream)).ok());
  }
};

}  // namespace

TEST_CASE("what is read of a worker that is ahead, since another waits for it, is told") {
  const LonePlane plane;
  server::JobLayout layout =
      layout_of(kPlaneJob, std::vector<std::uint64_t>(kPlaneKeys, kPlaneElements));
  layout.workers = 2;
  REQUIRE(plane->create_job(layout).ok());
  MemoryWorker first(*plane, layout.plan, 0);
  MemoryWorker second(*plane, layout.plan, 1);
  CHECK(plane->staged_beyond().empty());
  const auto run_until = [&](const auto& is_done) {
    const auto end = std::chrono::steady_clock::now() + kHangGuard;
    while (!is_done() && std::chrono::steady_clock::now() < end) {
      first.exchange->run_once();
      second.exchange->run_once();
    }
    REQUIRE(is_done());
  };
  // A push of each is what the job was admitted with.
  first.exchange->start(0);
  second.exchange->start(0);
  run_until([&] { return first.exchange->idle() && second.exchange->idle(); });
  CHECK(plane->job_counters(kPlaneJob)->staging_bytes > 0);
  CHECK(plane->staged_beyond().empty());

  // The first pushes everything; what the second waits for is behind all of that.
  for (KeyId key = 0; key < kPlaneKeys; ++key) first.exchange->start(key);
  second.exchange->start(kPlaneKeys - 1);
  run_until([&] { return second.exchange->ready(kPlaneKeys - 1); });
  const server::StagedBeyond beyond = plane->staged_beyond();
  REQUIRE(beyond.contains(kPlaneJob));
  CHECK(beyond.at(kPlaneJob) > kPlaneKeys / 3 * kKeyBytes);
  CHECK(beyond.at(kPlaneJob) < kPlaneKeys * (kKeyBytes + 4096));
  for (KeyId key = 0; key + 1 < kPlaneKeys; ++key) second.exchange->start(key);
  run_until([&] { return first.exchange->idle() && second.exchange->idle(); });
}

}  // namespace phub::testing
