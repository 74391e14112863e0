// What workers report of their steps, over real gRPC.
#include <grpcpp/create_channel.h>
#include <spdlog/spdlog.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>

#include "common/rendezvous/rendezvous.h"
#include "common/steps/recent_steps.h"
#include "proto/control.grpc.pb.h"
#include "server/jobs/table.h"
#include "server/rpc/service.h"
#include "tests/support/server/fake_data_plane.h"

namespace phub::testing {
namespace {

using Catch::Matchers::Contains;

constexpr std::chrono::minutes kPatience{1};  // bounds a test that hangs

// A server with a job of one worker, which has joined.
struct ReportedJob {
  server::JobTable table{server::JobTableOptions{}};
  FakeDataPlane data_plane{2};
  std::unique_ptr<server::ControlService> service;
  std::unique_ptr<client::Rendezvous> worker;
  client::JoinInfo info;

  ReportedJob() {
    spdlog::set_level(spdlog::level::err);
    table.attach(data_plane);
    service =
        std::move(*server::ControlService::create({.address = "127.0.0.1:0"}, table, data_plane));
    worker = std::move(*client::Rendezvous::create(service->address()));
    const JobSpec spec{
        .name = "demo", .workers = 1, .rule = RuleKind::kMean, .keys = {{"a", 1000}}};
    info = worker->join(spec, kPatience).value();
  }
  std::optional<StepWaits> kept() const {
    return table.views.list().front().members.front().step_waits;
  }
};

}  // namespace

TEST_CASE(
    "steps that contradict themselves are refused by the field, and nothing is kept of them") {
  const ReportedJob job;
  const auto stub = control::Rendezvous::NewStub(
      grpc::CreateChannel(job.service->address(), grpc::InsecureChannelCredentials()));
  const auto beat = [&](std::uint64_t steps, std::uint64_t input_ns) {
    control::HeartbeatRequest request;
    request.set_job_id(job.info.job_id);
    request.set_epoch(job.info.epoch);
    request.set_secret(job.info.secret.data(), job.info.secret.size());
    control::StepWaits& times = *request.mutable_step_waits();
    times.set_steps(steps);
    times.set_step_ns(1000);
    times.set_input_ns(input_ns);
    control::HeartbeatReply reply;
    grpc::ClientContext context;
    return stub->Heartbeat(&context, request, &reply);
  };
  for (const std::uint64_t input_ns : {std::uint64_t{1001}, UINT64_MAX}) {
    const grpc::Status refused = beat(1, input_ns);
    CHECK(refused.error_code() == grpc::StatusCode::INVALID_ARGUMENT);
    CHECK_THAT(refused.error_message(), Contains("step_waits.input_ns: "));
  }
  CHECK_THAT(beat(0, 0).error_message(), Contains("step_waits.steps: 0"));
  CHECK_FALSE(job.kept());
  REQUIRE(beat(1, 400).ok());
  CHECK(job.kept() == StepWaits{.steps = 1, .step_ns = 1000, .input_ns = 400});
}

TEST_CASE("a worker's heartbeats carry what it has reported, and an older worker's nothing") {
  const ReportedJob job;
  REQUIRE(job.worker->heartbeat(kPatience));
  CHECK_FALSE(job.kept());
  client::RecentSteps steps;
  job.worker->report(&steps);
  REQUIRE(job.worker->heartbeat(kPatience));
  CHECK_FALSE(job.kept());
  steps.add({.steps = 2, .step_ns = 1000, .input_ns = 300, .exchange_ns = 100});
  steps.add({.steps = 1, .step_ns = 500, .input_ns = 50});
  REQUIRE(job.worker->heartbeat(kPatience));
  CHECK(job.kept() == StepWaits{.steps = 3, .step_ns = 1500, .input_ns = 350, .exchange_ns = 100});
}

}  // namespace phub::testing
