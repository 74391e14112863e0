// The daemon's own thread and its drain, with workers over gRPC and a fake data plane.
#include <grpcpp/create_channel.h>
#include <grpcpp/impl/codegen/client_unary_call.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/support/byte_buffer.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "common/plan/plan.h"
#include "common/rendezvous/rendezvous.h"
#include "server/daemon.h"
#include "tests/support/server/fake_data_plane.h"
#include "tests/support/temporary_directory.h"

namespace phub::server {

namespace {

// A fake whose workers are connected as soon as their job is made.
class ConnectingDataPlane final : public testing::FakeDataPlane {
 public:
  explicit ConnectingDataPlane(MembershipListener& membership)
      : testing::FakeDataPlane(1), membership_(membership) {}
  void connect(std::uint64_t job_id, std::uint32_t worker) {
    membership_.on_connected(job_id, worker, 0, "tcp");
  }

 private:
  MembershipListener& membership_;
};

ConnectingDataPlane* newest = nullptr;  // made by the daemon of the running test

}  // namespace

// Stands in for the real one, which this test is not linked with.
Result<std::unique_ptr<DataPlane>> DataPlane::create(const DataPlaneOptions& /*options*/,
                                                     MembershipListener& membership) {
  auto data_plane = std::make_unique<ConnectingDataPlane>(membership);
  newest = data_plane.get();
  return std::unique_ptr<DataPlane>(std::move(data_plane));
}

namespace {

using Catch::Matchers::Contains;
using client::JoinInfo;
using client::Rendezvous;
using std::chrono::milliseconds;

constexpr milliseconds kLong{60'000};  // bounds a test that hangs

std::unique_ptr<Daemon> daemon_with(milliseconds heartbeat_deadline, milliseconds drain_timeout) {
  spdlog::set_level(spdlog::level::off);
  auto daemon = Daemon::create({.data_plane = {},
                                .control_address = "127.0.0.1:0",
                                .heartbeat_deadline = heartbeat_deadline,
                                .drain_timeout = drain_timeout});
  REQUIRE(daemon);
  return std::move(*daemon);
}

// grpc.health.v1.HealthCheckResponse.ServingStatus; none: it has no reply.
enum class Health { kNone, kServing = 1, kNotServing = 2 };

// Asks as a supervisor does: about the whole server, without credentials. The messages are small
// enough to be written by hand: an empty request, and a field 1 that is the status.
Health health_of(const std::string& address) {
  const auto channel = grpc::CreateChannel(address, grpc::InsecureChannelCredentials());
  const grpc::internal::RpcMethod check("/grpc.health.v1.Health/Check",
                                        grpc::internal::RpcMethod::NORMAL_RPC, channel);
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + kLong);
  const grpc::Slice nothing;
  const grpc::ByteBuffer request(&nothing, 1);
  grpc::ByteBuffer reply;
  const grpc::Status status =
      grpc::internal::BlockingUnaryCall(channel.get(), check, &context, request, &reply);
  grpc::Slice bytes;
  if (!status.ok() || !reply.DumpToSingleSlice(&bytes).ok()) return Health::kNone;
  if (bytes.size() != 2 || bytes.begin()[0] != 0x08) return Health::kNone;
  return static_cast<Health>(bytes.begin()[1]);
}

struct Running {
  std::unique_ptr<Rendezvous> rendezvous;
  JoinInfo info;
  Status started;

  explicit Running(const Daemon& daemon)
      : rendezvous(std::move(*Rendezvous::create(daemon.control_address()))) {
    auto joined = rendezvous->join({.keys = {{.name = "a", .elements = 100}}}, kLong);
    REQUIRE(joined);
    info = *joined;
    const Plan plan = make_plan({.key_elements = {100}, .cores_per_server = {1}}).value();
    started = rendezvous->ready({1}, {}, 0, plan.hash, kLong);
    if (!started.ok()) return;
    newest->connect(info.job_id, info.worker_index);
    started = rendezvous->start(kLong, "");
  }
};

TEST_CASE("the daemon loses a silent worker by itself and releases its job") {
  const auto daemon = daemon_with(milliseconds(100), kLong);
  // A busy machine may lose it before it has started: then there is another.
  std::optional<Running> worker(*daemon);
  while (!worker->started.ok()) worker.emplace(*daemon);
  const auto is_released = [&] {
    const auto removed = newest->removed();
    return std::find(removed.begin(), removed.end(), worker->info.job_id) != removed.end();
  };
  const auto deadline = std::chrono::steady_clock::now() + kLong;
  while (!is_released() && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
  CHECK(is_released());
  const auto beat = worker->rendezvous->heartbeat(kLong);
  REQUIRE(beat);
  CHECK_THAT(beat->reason, Contains("no heartbeat for 100 ms"));
}

TEST_CASE("a drain lets a running job finish") {
  const auto daemon = daemon_with(kLong, kLong);
  const Running worker(*daemon);
  REQUIRE(worker.started.ok());
  daemon->drain();
  CHECK_FALSE(daemon->wait_until_drained(milliseconds(1)));
  CHECK(worker.rendezvous->heartbeat(kLong)->running);
  REQUIRE(worker.rendezvous->leave(kLong).ok());
  CHECK(daemon->wait_until_drained(kLong));
}

TEST_CASE("a drain ends a job that runs too long and waits until its worker knows") {
  const auto daemon = daemon_with(kLong, milliseconds(0));
  const Running worker(*daemon);
  REQUIRE(worker.started.ok());
  std::atomic<bool> was_told{false};
  std::string reason;
  daemon->drain();
  std::thread beating([&] {
    while (!was_told) {
      const auto beat = worker.rendezvous->heartbeat(kLong);
      if (!beat) continue;  // it asks too often
      reason = beat->reason;
      was_told = !beat->running;
    }
  });
  CHECK(daemon->wait_until_drained(kLong));
  beating.join();
  CHECK(was_told);
  CHECK_THAT(reason, Contains("drained"));
}

TEST_CASE("the health service says whether jobs may come, also while the last ones end") {
  const auto daemon = daemon_with(kLong, kLong);
  CHECK(health_of(daemon->control_address()) == Health::kServing);
  const Running worker(*daemon);
  REQUIRE(worker.started.ok());
  CHECK(health_of(daemon->control_address()) == Health::kServing);
  daemon->drain();
  const auto deadline = std::chrono::steady_clock::now() + kLong;
  while (health_of(daemon->control_address()) == Health::kServing &&
         std::chrono::steady_clock::now() < deadline) {
    std::this_thread::yield();
  }
  CHECK(health_of(daemon->control_address()) == Health::kNotServing);
  CHECK(worker.rendezvous->heartbeat(kLong)->running);
  REQUIRE(worker.rendezvous->leave(kLong).ok());
  CHECK(daemon->wait_until_drained(kLong));
  CHECK(health_of(daemon->control_address()) == Health::kNotServing);
}

TEST_CASE("the health service needs no token where all else does") {
  spdlog::set_level(spdlog::level::off);
  const TemporaryDirectory folder;
  const auto daemon =
      Daemon::create({.data_plane = {},
                      .control_address = "127.0.0.1:0",
                      .tenancy = {.state_folder = folder.path / "state", .tokens_required = true}});
  REQUIRE(daemon);
  const auto stranger = std::move(*Rendezvous::create((*daemon)->control_address()));
  const auto refused = stranger->join({.keys = {{.name = "a", .elements = 100}}}, kLong);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code() == Code::kUnauthenticated);
  CHECK(health_of((*daemon)->control_address()) == Health::kServing);
}

}  // namespace
}  // namespace phub::server
