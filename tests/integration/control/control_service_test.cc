// The control plane over real gRPC on a free port: workers' Rendezvous against a daemon's services
// on a fake data plane.
#include <fmt/format.h>
#include <grpcpp/create_channel.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <cstdint>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "common/plan/plan.h"
#include "common/rendezvous/membership.h"
#include "proto/control.grpc.pb.h"
#include "proto/probe.grpc.pb.h"
#include "server/jobs/table.h"
#include "server/rpc/service.h"
#include "tests/support/server/fake_data_plane.h"

namespace phub::testing {
namespace {

using Catch::Matchers::Contains;
using client::JoinInfo;
using client::Rendezvous;
using std::chrono::milliseconds;

constexpr milliseconds kLong{60'000};  // bounds a test that hangs
constexpr std::uint32_t kCores = 2;

// A daemon without a reaper thread: the test reaps when it wants to, on its own clock.
struct Server {
  std::atomic<std::int64_t> time_ms{1'000'000};
  server::JobTable table{server::JobTableOptions{
      .clock = [this] { return server::TimePoint(milliseconds(time_ms.load())); }}};
  FakeDataPlane data_plane{kCores};
  std::unique_ptr<server::ControlService> service;

  explicit Server(const std::string& address = "127.0.0.1:0") {
    spdlog::set_level(spdlog::level::err);
    table.attach(data_plane);
    auto created = server::ControlService::create({.address = address}, table, data_plane);
    INFO((created ? "" : created.error().message()));
    REQUIRE(created);
    service = std::move(*created);
  }
  std::unique_ptr<Rendezvous> rendezvous() const {
    return std::move(*Rendezvous::create(service->address()));
  }
  void connect(const JoinInfo& member) {
    for (std::uint32_t core = 0; core < kCores; ++core) {
      table.members.on_connected(member.job_id, member.worker_index, core, "shm");
    }
  }
};

template <typename Condition>
bool eventually(const Condition& condition) {
  const auto deadline = std::chrono::steady_clock::now() + kLong;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::yield();
  }
  return true;
}

JobSpec job_of(std::uint32_t workers) {
  return {.name = "demo",
          .workers = workers,
          .rule = RuleKind::kMean,
          .keys = {{.name = "a", .elements = 1000}, {.name = "b", .elements = 9000}}};
}

std::uint64_t plan_hash(std::vector<std::uint32_t> cores_per_server) {
  return make_plan({.key_elements = {1000, 9000}, .cores_per_server = std::move(cores_per_server)})
      .value()
      .hash;
}

// A worker that has joined and is ready.
struct Worker {
  std::unique_ptr<Rendezvous> rendezvous;
  JoinInfo info;

  Worker(Server& server, const JobSpec& job) : rendezvous(server.rendezvous()) {
    auto joined = rendezvous->join(job, kLong);
    INFO((joined ? "" : joined.error().message()));
    REQUIRE(joined);
    info = *joined;
    REQUIRE(rendezvous->ready({kCores}, {}, 0, plan_hash({kCores}), kLong).ok());
  }
};

TEST_CASE("two workers join, connect, start, beat and leave") {
  Server server;
  Worker first(server, job_of(2));
  Worker second(server, job_of(2));
  CHECK(first.info.worker_index == 0);
  CHECK(second.info.worker_index == 1);
  CHECK(first.info.secret != second.info.secret);
  CHECK(first.info.cores == kCores);
  CHECK(first.info.host == "127.0.0.1");
  CHECK(first.info.tcp_port == 4242);
  CHECK(first.info.shm_socket == "phub-fake");
  CHECK(first.info.same_host);
  CHECK(first.info.heartbeat_interval == milliseconds(1000));
  CHECK(server.table.members.secret_of(first.info.job_id, first.info.epoch, 0) ==
        server::IssuedSecret{first.info.secret});

  auto started = std::async(std::launch::async, [&] { return first.rendezvous->start(kLong, ""); });
  server.connect(first.info);
  server.connect(second.info);
  CHECK(second.rendezvous->start(kLong, "").ok());
  CHECK(started.get().ok());
  CHECK(first.rendezvous->heartbeat(kLong).value().running);

  CHECK(first.rendezvous->leave(kLong).ok());
  CHECK(second.rendezvous->heartbeat(kLong).value().left == std::vector<std::uint32_t>{0});
  CHECK(second.rendezvous->leave(kLong).ok());
  const auto beat = second.rendezvous->heartbeat(kLong).value();
  CHECK_FALSE(beat.running);
  CHECK(beat.reason == "all workers left");
}

// It would tell whoever may ask which ports are open where this server can reach.
TEST_CASE("a server measures with servers of its racks, and calls no other host") {
  Server server;  // knows no racks
  const auto stub = control::Probes::NewStub(
      grpc::CreateChannel(server.service->address(), grpc::InsecureChannelCredentials()));
  control::MeasureRequest request;
  request.set_address(server.service->address());
  request.set_seconds(0.01);
  control::MeasureReply reply;
  grpc::ClientContext context;
  const grpc::Status refused = stub->Measure(&context, request, &reply);
  CHECK(refused.error_code() == grpc::StatusCode::INVALID_ARGUMENT);
  CHECK_THAT(refused.error_message(), Contains("no server of the racks that this one knows"));
}

TEST_CASE("a worker reaches a server on IPv6") {
  Server server("[::1]:0");
  Worker worker(server, job_of(1));
  CHECK(worker.info.host == "::1");
}

TEST_CASE("a start that times out names the worker that is missing") {
  Server server;
  Worker first(server, job_of(3));
  Worker second(server, job_of(3));
  server.connect(first.info);
  auto started = std::async(std::launch::async, [&] { return first.rendezvous->start(kLong, ""); });
  while (started.wait_for(milliseconds(1)) != std::future_status::ready) server.time_ms += 1000;
  const Status late = started.get();
  CHECK(late.code() == Code::kDeadlineExceeded);
  CHECK_THAT(late.message(),
             Contains("worker 2 has not joined") && Contains(fmt::format("pid {}", getpid())) &&
                 Contains("is connected to 0 of 2 cores") && Contains(server.service->address()));
  CHECK_FALSE(second.rendezvous->heartbeat(kLong).value().running);
}

TEST_CASE("a join that differs from the job is refused with field and both values") {
  Server server;
  Worker first(server, job_of(2));
  JobSpec other = job_of(2);
  other.wire_type = DataType::kFloat16;
  const auto joined = server.rendezvous()->join(other, kLong);
  REQUIRE_FALSE(joined);
  CHECK(joined.error().code() == Code::kInvalidArgument);
  CHECK_THAT(joined.error().message(), Contains("wire_type is fp32 in the job but fp16"));
}

TEST_CASE("a plan that differs is refused with both hashes") {
  Server server;
  const auto rendezvous = server.rendezvous();
  REQUIRE(rendezvous->join(job_of(1), kLong));
  const Status refused = rendezvous->ready({kCores}, {}, 0, 0x123, kLong);
  CHECK(refused.code() == Code::kFailedPrecondition);
  CHECK_THAT(refused.message(),
             Contains("0000000000000123") && Contains(fmt::format("{:016x}", plan_hash({kCores}))));
}

TEST_CASE("a lost worker is named to the others and its job's name is free") {
  Server server;
  Worker first(server, job_of(2));
  Worker second(server, job_of(2));
  server.connect(first.info);
  server.connect(second.info);
  server.table.members.on_lost(second.info.job_id, 1, "its connection closed");
  const auto beat = first.rendezvous->heartbeat(kLong).value();
  CHECK_FALSE(beat.running);
  CHECK_THAT(beat.reason, Contains("worker 1 (host ") && Contains(fmt::format("{}", getpid())) &&
                              Contains("was lost: its connection closed"));
  CHECK(Worker(server, job_of(2)).info.job_id != first.info.job_id);
  server.table.reap();
  CHECK(server.data_plane.removed() == std::vector{first.info.job_id});
}

TEST_CASE("a worker that stops beating is lost and the one that beats is told") {
  Server server;
  Worker first(server, job_of(2));
  Worker second(server, job_of(2));
  server.time_ms += 4000;
  REQUIRE(first.rendezvous->heartbeat(kLong)->running);
  server.time_ms += 1001;
  server.table.reap();
  CHECK_THAT(first.rendezvous->heartbeat(kLong)->reason,
             Contains("worker 1") && Contains("no heartbeat for 5000 ms"));
}

TEST_CASE("a worker whose process goes away while it waits for the start is lost") {
  Server server;
  const auto channel =
      grpc::CreateChannel(server.service->address(), grpc::InsecureChannelCredentials());
  const auto stub = control::Rendezvous::NewStub(channel);
  Worker worker(server, job_of(2));
  control::StartRequest request;
  request.set_job_id(worker.info.job_id);
  request.set_epoch(worker.info.epoch);
  request.set_secret(worker.info.secret.data(), worker.info.secret.size());
  request.set_timeout_ms(60'000);
  grpc::ClientContext context;
  auto started = std::async(std::launch::async, [&] {
    control::StartReply reply;
    return stub->Start(&context, request, &reply);
  });
  CHECK(eventually([&] { return server.table.starts.waiting() == 1; }));
  context.TryCancel();
  CHECK_FALSE(started.get().ok());
  CHECK(eventually(
      [&] { return server.table.views.inspect("demo", 0)->state == server::JobState::kFailed; }));
  CHECK_THAT(server.table.views.inspect("demo", 0)->reason,
             Contains("worker 0") && Contains("was lost"));
}

TEST_CASE("a server that was restarted tells its workers that it does not know them") {
  std::unique_ptr<Server> server = std::make_unique<Server>();
  const std::string address = server->service->address();
  Worker worker(*server, job_of(1));
  server.reset();
  const auto unanswered = worker.rendezvous->heartbeat(milliseconds(300));
  REQUIRE_FALSE(unanswered);
  CHECK(unanswered.error().code() == Code::kUnavailable);
  CHECK_THAT(unanswered.error().message(), Contains(address));
  Server restarted(address);
  const auto beat = worker.rendezvous->heartbeat(kLong);
  REQUIRE(beat);
  CHECK_FALSE(beat->running);
  CHECK_THAT(beat->reason, Contains("not known"));
}

TEST_CASE("a join waits for a server that is still starting and names one that never does") {
  std::string address;
  {
    const Server server;
    address = server.service->address();
  }
  const auto rendezvous = std::move(*Rendezvous::create(address));
  const auto refused = rendezvous->join(job_of(1), milliseconds(200));
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code() == Code::kUnavailable);
  CHECK_THAT(refused.error().message(), Contains("no phub-server answers at " + address));
  auto joined = std::async(std::launch::async, [&] { return rendezvous->join(job_of(1), kLong); });
  const Server late(address);
  CHECK(joined.get());
}

TEST_CASE("a wrong secret and secrets of a wrong length are refused") {
  Server server;
  Worker worker(server, job_of(1));
  const auto stub = control::Rendezvous::NewStub(
      grpc::CreateChannel(server.service->address(), grpc::InsecureChannelCredentials()));
  for (const std::size_t length : {0U, 31U, 32U, 33U}) {
    control::HeartbeatRequest request;
    request.set_job_id(worker.info.job_id);
    request.set_epoch(worker.info.epoch);
    request.set_secret(std::string(length, 'x'));
    control::HeartbeatReply reply;
    grpc::ClientContext context;
    CHECK(stub->Heartbeat(&context, request, &reply).error_code() ==
          grpc::StatusCode::PERMISSION_DENIED);
  }
}

TEST_CASE("workers join several servers with the index that the first one gave") {
  Server one;
  Server two;
  REQUIRE(one.rendezvous()->join(job_of(2), kLong));  // takes index 0 at the first server only
  const std::vector<std::string> addresses = {one.service->address(), two.service->address()};
  const auto membership = client::join_all(addresses, job_of(2), kLong);
  REQUIRE(membership);
  REQUIRE(membership->servers.size() == 2);
  CHECK(membership->joined[0].worker_index == 1);
  CHECK(membership->joined[1].worker_index == 1);
  const std::uint64_t hash = plan_hash({kCores, kCores});
  CHECK(membership->servers[0]->ready({kCores, kCores}, {}, 0, hash, kLong).ok());
  CHECK(membership->servers[1]->ready({kCores, kCores}, {}, 1, hash, kLong).ok());
  CHECK(two.data_plane.layout(membership->joined[1].job_id)->server_index == 1);
}

TEST_CASE("a join of several servers that fails at one leaves the others again") {
  Server one;
  Server two;
  two.table.drain(milliseconds(0));
  const std::vector<std::string> addresses = {one.service->address(), two.service->address()};
  const auto membership = client::join_all(addresses, job_of(1), kLong);
  REQUIRE_FALSE(membership);
  CHECK_THAT(membership.error().message(),
             Contains("draining") && Contains(two.service->address()));
  CHECK(one.table.views.inspect("demo", 0)->state == server::JobState::kEnded);
}

TEST_CASE("a second server on a port in use names address, field and cure") {
  Server server;
  const auto second = server::ControlService::create({.address = server.service->address()},
                                                     server.table, server.data_plane);
  REQUIRE_FALSE(second);
  CHECK(second.error().code() == Code::kAlreadyExists);
  CHECK_THAT(second.error().message(), Contains("control_address") &&
                                           Contains(server.service->address()) &&
                                           Contains("port 0"));
}

TEST_CASE("a worker's reason for its transport is shown, of what it may write") {
  Server server;
  Worker worker(server, job_of(1));
  server.connect(worker.info);
  const std::string wild = "no \"verbs\":\n\t\x1B[31m the GIDs\n" + std::string(2000, 'x');
  REQUIRE(worker.rendezvous->start(kLong, wild).ok());
  const server::JobView job = server.table.views.inspect("demo", 0).value();
  const std::string& reason = job.members[0].transport_reason;
  CHECK_THAT(reason, Catch::Matchers::StartsWith("no 'verbs': [31m the GIDs xxx"));
  CHECK(reason.size() == 1024 + 3);
  REQUIRE(worker.rendezvous->start(kLong, "another").ok());
  CHECK(server.table.views.inspect("demo", 0)->members[0].transport_reason == reason);
}

TEST_CASE("administrators see jobs, members, plan and statistics") {
  Server server;
  Worker worker(server, job_of(1));
  server.connect(worker.info);
  REQUIRE(worker.rendezvous->start(kLong, "on the same host").ok());
  const auto stub = control::Admin::NewStub(
      grpc::CreateChannel(server.service->address(), grpc::InsecureChannelCredentials()));

  control::InspectJobRequest inspect;
  inspect.set_name("demo");
  control::InspectJobReply inspected;
  grpc::ClientContext inspect_context;
  REQUIRE(stub->InspectJob(&inspect_context, inspect, &inspected).ok());
  CHECK(inspected.job().state() == control::JOB_STATE_RUNNING);
  CHECK(inspected.job().spec().keys_size() == 2);
  CHECK(inspected.job().statistics().rounds() == 5);
  CHECK(inspected.job().statistics().memory_bytes() == 300);
  REQUIRE(inspected.job().members_size() == 1);
  CHECK(inspected.job().members(0).transport() == "shm");
  CHECK(inspected.job().members(0).transport_reason() == "on the same host");
  CHECK(inspected.job().members(0).process_id() == static_cast<std::uint32_t>(getpid()));

  control::PlanRequest plan;
  plan.set_name("demo");
  control::PlanReply planned;
  grpc::ClientContext plan_context;
  REQUIRE(stub->Plan(&plan_context, plan, &planned).ok());
  CHECK(planned.hash() == plan_hash({kCores}));
  CHECK(planned.loads_size() == kCores);
  CHECK_FALSE(planned.is_preview());
  std::uint64_t elements = 0;
  for (const control::PlanChunk& chunk : planned.chunks()) elements += chunk.elements();
  CHECK(elements >= 10'000);

  control::StatisticsReply statistics;
  grpc::ClientContext statistics_context;
  REQUIRE(stub->Statistics(&statistics_context, {}, &statistics).ok());
  CHECK(statistics.server().jobs() == 1);
  CHECK(statistics.server().cores_size() == kCores);
  CHECK(statistics.server().resident_bytes() > 1'000'000);
  CHECK(statistics.server().drops(0).cause() == "wrong secret");
}

}  // namespace
}  // namespace phub::testing
