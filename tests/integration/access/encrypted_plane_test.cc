// The encrypted tcp data plane with somebody on the way, with peers that do otherwise, and with
// workers that insist on it.
#include <sys/socket.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <cstring>
#include <map>
#include <thread>

#include "common/connect/data_connection.h"
#include "common/exchange/exchange.h"
#include "common/protocol/wire.h"
#include "common/transport/handshake.h"
#include "server/plane/data_plane.h"
#include "tests/support/hang_guard.h"
#include "tests/support/run_workers.h"
#include "tests/support/server/test_server.h"
#include "tests/support/tap.h"

namespace phub::testing {
namespace {

constexpr std::uint64_t kJob = 7;
constexpr std::uint64_t kOtherJob = 8;
constexpr std::uint32_t kElements = 100'000;
// 16 bytes that nobody sends by chance.
constexpr std::string_view kPattern = "phub's gradient!";

class Members final : public server::MembershipListener {
 public:
  std::optional<server::IssuedSecret> secret_of(std::uint64_t, std::uint32_t,
                                                std::uint32_t) override {
    return server::IssuedSecret{.secret = {1, 2, 3}};
  }
  void on_connected(std::uint64_t, std::uint32_t, std::uint32_t, std::string_view) override {}
  void on_lost(std::uint64_t job_id, std::uint32_t, std::string_view) override {
    (job_id == kJob ? lost : others_lost).fetch_add(1);
  }
  std::atomic<int> lost{0};
  std::atomic<int> others_lost{0};
};

struct Plane {
  Members members;
  std::shared_ptr<const Plan> plan;
  std::unique_ptr<server::DataPlane> plane;

  explicit Plane(bool encrypt) {
    server::DataPlaneOptions options;
    options.cores = 1;
    options.encrypt_tcp = encrypt;
    plane = std::move(*server::DataPlane::create(options, members));
    PlanInput input;
    input.key_elements = {kElements};
    input.cores_per_server = {1};
    plan = std::make_shared<const Plan>(std::move(*make_plan(input)));
    for (const std::uint64_t job : {kJob, kOtherJob}) {
      server::JobLayout layout;
      layout.job_id = job;
      layout.weight_decay = {0};
      layout.plan = plan;
      REQUIRE(plane->create_job(layout).ok());
    }
  }
  client::JoinInfo join(std::uint64_t job, std::uint16_t port) const {
    client::JoinInfo joined;
    joined.job_id = job;
    joined.epoch = 1;
    joined.secret = {1, 2, 3};
    joined.cores = 1;
    joined.host = "127.0.0.1";
    joined.tcp_port = port;
    joined.encrypts_data = plane->encrypts_tcp();
    return joined;
  }
  std::uint64_t drops(std::string_view cause) const {
    for (const server::DropCounter& drop : plane->drops()) {
      if (drop.cause == cause) return drop.count;
    }
    return 0;
  }
  std::uint64_t completed(std::uint64_t job) const {
    return plane->job_counters(job)->chunks_completed;
  }
};

client::DataTarget target_of(const client::JoinInfo& joined) {
  return {.joined = &joined, .timeout = testing::kHangGuard};
}

template <typename Condition>
bool until(Condition condition) {
  const auto deadline = std::chrono::steady_clock::now() + testing::kHangGuard;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::yield();
  }
  return true;
}

// The one worker of a job, whose gradients are the pattern over and over.
struct Worker {
  std::unique_ptr<SharedMemory> memory;
  std::vector<std::byte> parameters;
  std::unique_ptr<client::Exchange> exchange;

  Worker(const Plane& plane, std::uint64_t job, std::uint16_t port) {
    const std::size_t bytes = plane.plan->arena_elements * sizeof(float);
    const std::size_t hyper = wire::hyper_bytes(1);
    memory = std::move(*SharedMemory::create("worker", hyper + bytes));
    parameters.resize(bytes);
    for (std::size_t i = 0; i < bytes; ++i) {
      memory->data()[hyper + i] = static_cast<std::byte>(kPattern[i % kPattern.size()]);
    }
    exchange = std::make_unique<client::Exchange>(plane.plan, DataType::kFloat32, true);
    exchange->use_memory({.hyper = memory->data(),
                          .gradients = memory->data() + hyper,
                          .parameters = parameters.data()});
    const client::JoinInfo joined = plane.join(job, port);
    auto stream = client::open_tcp(target_of(joined));
    REQUIRE(stream);
    REQUIRE(exchange->connect(**exchange->lanes().tcp(), {0, 0, 1}, std::move(*stream)).ok());
  }
  // False: the connection was lost.
  bool round() {
    exchange->start(0);
    CHECK(until([this] {
      exchange->run_once();
      return exchange->idle() || exchange->loss();
    }));
    return exchange->idle();
  }
};

bool shows_pattern(const std::string& bytes) { return bytes.find(kPattern) != std::string::npos; }

}  // namespace

TEST_CASE("neither gradients nor replies can be read on the way of an encrypted stream") {
  for (const bool encrypt : {false, true}) {
    const Plane plane(encrypt);
    const Tap tap(plane.plane->tcp_port(), std::nullopt);
    Worker worker(plane, kJob, tap.port());
    for (int i = 0; i < 3; ++i) REQUIRE(worker.round());
    // The sum of one worker's pattern is the pattern, there and back.
    CHECK(std::memcmp(worker.parameters.data(), kPattern.data(), kPattern.size()) == 0);
    for (const Tap::Way way : {Tap::Way::kToServer, Tap::Way::kToWorker}) {
      const std::string seen = tap.seen(way);
      CHECK(seen.size() > 3 * kElements * sizeof(float));
      CHECK(shows_pattern(seen) == !encrypt);
    }
  }
}

TEST_CASE("a push that is changed on the way ends its job and no other") {
  const Plane plane(true);
  Worker other(plane, kOtherJob, plane.plane->tcp_port());
  REQUIRE(other.round());
  const Tap tap(plane.plane->tcp_port(), Tap::Change{Tap::Way::kToServer, 40'000});
  Worker worker(plane, kJob, tap.port());
  CHECK_FALSE(worker.round());
  CHECK(worker.exchange->loss()->loss == transport::Loss::kClosed);
  CHECK(until([&] { return plane.members.lost == 1; }));
  CHECK(plane.drops("bad tag") == 1);
  CHECK(plane.completed(kJob) <= 1);  // what had come whole before it
  CHECK(other.round());
  CHECK(plane.members.others_lost == 0);
}

TEST_CASE("a reply that is changed on the way is not used, and the worker knows why") {
  const Plane plane(true);
  const Tap tap(plane.plane->tcp_port(), Tap::Change{Tap::Way::kToWorker, 40'000});
  Worker worker(plane, kJob, tap.port());
  CHECK_FALSE(worker.round());
  CHECK(worker.exchange->loss()->loss == transport::Loss::kBadTag);
  CHECK(plane.drops("bad tag") == 0);
}

TEST_CASE("a recorded stream is worth nothing after another handshake") {
  const Plane plane(true);
  std::string recorded;
  {
    const Tap tap(plane.plane->tcp_port(), std::nullopt);
    Worker worker(plane, kOtherJob, tap.port());
    REQUIRE(worker.round());
    recorded = tap.seen(Tap::Way::kToServer);
  }
  recorded.erase(0, sizeof(transport::Hello) + sizeof(transport::Mark) + sizeof(transport::Proof));
  // A member's own connection, on which somebody on the way puts what an earlier one has sent.
  const client::JoinInfo joined = plane.join(kJob, plane.plane->tcp_port());
  const auto stream = client::open_tcp(target_of(joined));
  REQUIRE(stream);
  ::send(stream->socket.get(), recorded.data(), recorded.size(), MSG_NOSIGNAL);
  CHECK(until([&] { return plane.members.lost == 1; }));
  CHECK(plane.drops("bad tag") == 1);
  CHECK(plane.completed(kJob) == 0);
}

TEST_CASE("a worker and a server of different minds about encryption part with the option's name") {
  for (const bool encrypt : {false, true}) {
    const Plane plane(encrypt);
    client::JoinInfo joined = plane.join(kJob, plane.plane->tcp_port());
    joined.encrypts_data = !encrypt;
    const auto refused = client::open_tcp(target_of(joined));
    REQUIRE_FALSE(refused);
    INFO(refused.error().to_string());
    CHECK(refused.error().code() == Code::kFailedPrecondition);
    CHECK(refused.error().message().find("security.encrypt_data") != std::string::npos);
    CHECK(until([&] { return plane.drops("wrong encryption") == 1; }));
    joined.encrypts_data = encrypt;
    CHECK(client::open_tcp(target_of(joined)));  // the job is not hurt
  }
}

namespace {

Result<std::unique_ptr<TestServer>> server_that(bool encrypts) {
  server::DaemonOptions options;
  options.data_plane.cores = 2;
  options.data_plane.encrypt_tcp = encrypts;
  return TestServer::start(std::move(options));
}

ClientOptions insisting(const TestServer& server, const std::string& transport) {
  return {.servers = {server.address()},
          .job = {.workers = 2},
          .transport = transport,
          .timeout = testing::kHangGuard,
          .security = {.require_encryption = true}};
}

}  // namespace

TEST_CASE("who requires encryption gets it over tcp, and does without over shm") {
  const auto server = std::move(*server_that(true));
  for (const std::string transport : {"tcp", "shm", "auto"}) {
    const Status status =
        run_workers(insisting(*server, transport), {{"w", kElements}}, [](Client& client) {
          for (float& value : client.gradient<float>(0)) value = 2.0F;
          PHUB_RETURN_IF_ERROR(client.push_pull(0));
          const float sum = client.parameter<float>(0)[kElements - 1];
          // Returned: Catch's assertions are for one thread.
          return sum == 4.0F ? Status() : Status(Code::kInternal, std::to_string(sum));
        });
    INFO(transport << " " << status.to_string());
    CHECK(status.ok());
  }
}

TEST_CASE("who requires encryption does not push to a server without it") {
  const auto server = std::move(*server_that(false));
  const Status status = run_workers(insisting(*server, "tcp"), {{"w", kElements}},
                                    [](Client& client) { return client.push_pull(0); });
  INFO(status.to_string());
  CHECK(status.code() == Code::kFailedPrecondition);
  CHECK(status.message().find("require_encryption") != std::string::npos);
  CHECK(status.message().find("encrypt_data") != std::string::npos);
}

TEST_CASE("who requires encryption does not join another host without TLS") {
  ClientOptions options{.servers = {"rack1.example:7077"}};
  options.security.require_encryption = true;
  const auto client = Client::connect(options);
  REQUIRE_FALSE(client);
  CHECK(client.error().message().find("require_encryption") != std::string::npos);
  CHECK(client.error().message().find("TLS") != std::string::npos);
}

}  // namespace phub::testing
