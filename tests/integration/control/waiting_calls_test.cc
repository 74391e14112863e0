// Hundreds of calls that wait, over real gRPC: they hold up nobody. The clients are asynchronous,
// so that the test needs no thread for each.
#include <fmt/format.h>
#include <grpcpp/create_channel.h>
#include <spdlog/spdlog.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "common/rendezvous/rendezvous.h"
#include "common/rpc/status.h"
#include "proto/control.grpc.pb.h"
#include "server/rpc/service.h"
#include "server/snapshot/snapshotter.h"
#include "tests/support/server/async_calls.h"
#include "tests/support/server/job_table_fixture.h"
#include "tests/support/temporary_directory.h"

namespace phub::testing {
namespace {

using Catch::Matchers::Contains;

constexpr std::size_t kCallsOfChannel = 50;
constexpr std::chrono::seconds kGuard = kCallGuard;

// A fake whose snapshots stand still until the test lets them end.
class StandingDataPlane final : public FakeDataPlane {
 public:
  using FakeDataPlane::FakeDataPlane;

  std::unique_ptr<server::CopyUnderWay> copy_job(std::uint64_t /*job_id*/,
                                                 const server::CopyMoment& moment) override {
    return std::make_unique<Standing>(*this, moment);
  }
  bool wait_for_copies(std::size_t count) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, kGuard, [&] { return standing_ >= count; });
  }
  void release() {
    const std::lock_guard lock(mutex_);
    is_released_ = true;
  }

 private:
  struct Standing final : server::CopyUnderWay {
    Standing(StandingDataPlane& plane_, const server::CopyMoment& moment_)
        : plane(plane_), moment(moment_) {
      const std::lock_guard lock(plane.mutex_);
      ++plane.standing_;
      plane.changed_.notify_all();
    }
    Result<std::optional<server::CopiedJob>> step() override {
      if (moment.is_cancelled()) return Status(Code::kAborted, "nobody waits");
      const std::lock_guard lock(plane.mutex_);
      if (!plane.is_released_) return std::optional<server::CopiedJob>();
      return Status(Code::kAborted, "the test let it go");
    }
    std::chrono::microseconds rest() const override { return std::chrono::milliseconds(1); }
    StandingDataPlane& plane;
    const server::CopyMoment moment;
  };

  std::mutex mutex_;
  std::condition_variable changed_;
  std::size_t standing_ = 0;
  bool is_released_ = false;
};

struct WaitingServer {
  TemporaryDirectory folder;
  StandingDataPlane data_plane{kCores};
  TenantsInMemory tenants;
  server::JobTable table{{.tenants = &tenants}};
  std::unique_ptr<server::SnapshotStore> store =
      std::move(*server::SnapshotStore::create({.folder = folder.path, .kept = 1}));
  server::Snapshotter snapshotter{data_plane, *store};
  std::unique_ptr<server::ControlService> service;

  WaitingServer() {
    spdlog::set_level(spdlog::level::off);
    table.attach(data_plane);
    auto created = server::ControlService::create(
        {.address = "127.0.0.1:0", .snapshotter = &snapshotter}, table, data_plane);
    INFO((created ? "" : created.error().message()));
    REQUIRE(created);
    service = std::move(*created);
  }
  ~WaitingServer() { data_plane.release(); }

  std::shared_ptr<grpc::Channel> channel() const {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    return grpc::CreateCustomChannel(service->address(), grpc::InsecureChannelCredentials(),
                                     arguments);
  }
  // Members of one job, none of them connected.
  std::vector<Identity> members(const std::string& job, std::uint32_t workers,
                                const std::string& tenant = "default") {
    const JobSpec spec = spec_of(workers, job);
    std::vector<Identity> joined;
    for (std::uint32_t i = 0; i < workers; ++i) {
      joined.push_back(
          table.members
              .join(
                  {.spec = std::make_shared<const JobSpec>(spec), .tenant = tenant, .host = "host"})
              .value());
      const auto load = table.views.core_load_bytes(joined[0].job_id);
      REQUIRE(ready_now(table, joined.back(),
                        {.cores_per_server = {kCores}, .core_load_bytes = load},
                        JobTableFixture::hash_of(spec, {kCores}, load))
                  .ok());
    }
    return joined;
  }
  void connect(const Identity& member) {
    for (std::uint32_t core = 0; core < kCores; ++core) {
      table.members.on_connected(member.job_id, member.worker, core, "shm");
    }
  }
};

template <typename Message>
Message message_of(const Identity& member) {
  Message message;
  message.set_job_id(member.job_id);
  message.set_epoch(member.epoch);
  message.set_worker_index(member.worker);
  message.set_secret(member.secret.data(), member.secret.size());
  return message;
}

using Starts = Calls<control::Rendezvous::Stub, control::StartRequest, control::StartReply>;
using Takes = Calls<control::Snapshots::Stub, control::TakeRequest, control::TakeReply>;

template <typename Condition>
bool becomes_true(const Condition& condition) {
  const auto deadline = std::chrono::steady_clock::now() + kGuard;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::yield();
  }
  return true;
}

control::StartRequest start_of(const Identity& member) {
  auto request = message_of<control::StartRequest>(member);
  request.set_timeout_ms(600'000);
  return request;
}

// What everybody else does while others wait.
void goes_on(WaitingServer& server, const Identity& running) {
  const auto stub = control::Rendezvous::NewStub(server.channel());
  const auto admin = control::Admin::NewStub(server.channel());
  for (int i = 0; i < 20; ++i) {
    control::HeartbeatReply beat;
    grpc::ClientContext beat_context;
    const grpc::Status beaten =
        stub->Heartbeat(&beat_context, message_of<control::HeartbeatRequest>(running), &beat);
    INFO(beaten.error_message());
    REQUIRE(beaten.ok());
    REQUIRE(beat.running());
    control::ListJobsReply jobs;
    grpc::ClientContext list_context;
    REQUIRE(admin->ListJobs(&list_context, {}, &jobs).ok());
  }
  const auto joining = std::move(*client::Rendezvous::create(server.service->address()));
  REQUIRE(joining->join({.name = "another", .keys = {{.name = "a", .elements = 10}}}, kGuard));
  REQUIRE(joining->leave(kGuard).ok());
}

TEST_CASE("640 workers that wait for their start hold up nobody, and all start") {
  constexpr std::uint32_t kJobs = 10;
  constexpr std::uint32_t kWorkers = 64;
  WaitingServer server;
  const Identity running = server.members("running", 1)[0];
  server.connect(running);
  std::vector<std::unique_ptr<control::Rendezvous::Stub>> stubs;
  std::vector<std::vector<Identity>> jobs;
  Starts starts(&control::Rendezvous::Stub::AsyncStart);
  for (std::uint32_t job = 0; job < kJobs; ++job) {
    jobs.push_back(server.members(fmt::format("job{}", job), kWorkers));
    for (const Identity& member : jobs.back()) {
      if (starts.left() % kCallsOfChannel == 0) {
        stubs.push_back(control::Rendezvous::NewStub(server.channel()));
      }
      starts.send(*stubs.back(), start_of(member));
    }
  }
  REQUIRE(becomes_true([&] { return server.table.starts.waiting() == kJobs * kWorkers; }));
  goes_on(server, running);
  CHECK(starts.left() == kJobs * kWorkers);
  for (const auto& members : jobs) {
    for (const Identity& member : members) server.connect(member);
  }
  while (starts.left() > 0) REQUIRE(starts.wait_for_one().ok());
}

TEST_CASE("600 starts of one member are one that waits, and the others are told so") {
  WaitingServer server;
  const auto members = server.members("demo", 2);
  const auto stub = control::Rendezvous::NewStub(server.channel());
  Starts starts(&control::Rendezvous::Stub::AsyncStart);
  for (int i = 0; i < 600; ++i) starts.send(*stub, start_of(members[0]));
  while (starts.left() > 1) {
    const grpc::Status replaced = starts.wait_for_one();
    CHECK(replaced.error_code() == grpc::StatusCode::ABORTED);
    CHECK_THAT(replaced.error_message(), Contains("a later start of worker 0"));
  }
  CHECK(server.table.starts.waiting() == 1);
  CHECK(server.table.views.live_jobs() == 1);
  for (const Identity& member : members) server.connect(member);
  CHECK(starts.wait_for_one().ok());
}

TEST_CASE("600 snapshots of one tenant are a few that wait, the others are refused with figures") {
  WaitingServer server;
  const Identity running = server.members("running", 1)[0];
  server.connect(running);
  std::vector<std::unique_ptr<control::Snapshots::Stub>> stubs;
  Takes takes(&control::Snapshots::Stub::AsyncTake);
  control::TakeRequest request;
  request.set_name("running");
  request.set_timeout_ms(600'000);
  for (std::size_t i = 0; i < 600; ++i) {
    if (i % kCallsOfChannel == 0) stubs.push_back(control::Snapshots::NewStub(server.channel()));
    takes.send(*stubs.back(), request);
  }
  constexpr std::size_t kUnderWay = 16;
  while (takes.left() > kUnderWay) {
    const grpc::Status refused = takes.wait_for_one();
    CHECK(refused.error_code() == grpc::StatusCode::RESOURCE_EXHAUSTED);
    CHECK_THAT(
        refused.error_message(),
        Contains("16 snapshots of tenant \"default\" are under way") && Contains("16 are allowed"));
  }
  REQUIRE(server.data_plane.wait_for_copies(4));
  goes_on(server, running);
  CHECK(takes.left() == kUnderWay);

  // A worker is told when to ask again, and does.
  const auto stub = control::Rendezvous::NewStub(server.channel());
  grpc::ClientContext context;
  control::TakeReply reply;
  CHECK(stub->Snapshot(&context, message_of<control::SnapshotRequest>(running), &reply)
            .error_code() == grpc::StatusCode::RESOURCE_EXHAUSTED);
  CHECK(context.GetServerTrailingMetadata().count(kRetryAfterMs) == 1);
  const auto worker = std::move(*client::Rendezvous::create(server.service->address()));
  REQUIRE(worker->join({.name = "another", .keys = {{.name = "a", .elements = 10}}}, kGuard));
  auto taken = std::async(std::launch::async, [&] { return worker->snapshot(1, kGuard); });
  server.data_plane.release();
  CHECK_THAT(taken.get().error().message(), Contains("let it go"));
  while (takes.left() > 0) CHECK_THAT(takes.wait_for_one().error_message(), Contains("let it go"));
}

TEST_CASE("snapshots that wait hold no thread: 80 of 20 tenants wait beside each other") {
  constexpr std::size_t kTenants = 20;
  constexpr std::size_t kOfTenant = 4;
  WaitingServer server;
  const auto stub = control::Snapshots::NewStub(server.channel());
  Takes takes(&control::Snapshots::Stub::AsyncTake);
  for (std::size_t i = 0; i < kTenants; ++i) {
    control::TakeRequest request;
    request.set_tenant(fmt::format("tenant{}", i));
    request.set_name("demo");
    request.set_timeout_ms(600'000);
    REQUIRE(server.tenants.create(request.tenant(), {}));
    server.connect(server.members("demo", 1, request.tenant())[0]);
    for (std::size_t one = 0; one < kOfTenant; ++one) takes.send(*stub, request);
  }
  CHECK(server.data_plane.wait_for_copies(kTenants * kOfTenant));
  server.data_plane.release();
  while (takes.left() > 0) CHECK_THAT(takes.wait_for_one().error_message(), Contains("let it go"));
}

}  // namespace
}  // namespace phub::testing
