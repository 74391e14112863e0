// Several jobs at once on the same cores: each gets its own sums, and its times are told.
#include <grpcpp/create_channel.h>

#include <atomic>
#include <barrier>
#include <catch2/catch.hpp>
#include <future>

#include "proto/control.grpc.pb.h"
#include "tests/support/hang_guard.h"
#include "tests/support/run_workers.h"
#include "tests/support/server/test_server.h"

namespace phub {
namespace {

constexpr int kJobRounds = 40;

ClientOptions job(const TestServer& server, const std::string& name, const std::string& transport,
                  DataType wire_type) {
  return {.servers = {server.address()},
          .job = {.name = name, .workers = 3, .wire_type = wire_type},
          .transport = transport,
          .timeout = testing::kHangGuard};
}

// Sums small integers, exact in every wire type. Worker 0 calls `pushed` when it has pushed all of
// a round and waits for nothing yet, and `after` before it leaves.
template <typename Pushed, typename After>
Status sum(const ClientOptions& options, std::uint64_t elements, Pushed pushed, After after) {
  return run_workers(options, {{"a", elements}, {"b", 7}}, [&](Client& client) -> Status {
    for (int round = 0; round < kJobRounds; ++round) {
      for (KeyId key : {0U, 1U}) {
        for (float& value : client.gradient<float>(key)) {
          value = static_cast<float>(client.worker_index() + key + static_cast<KeyId>(round % 8));
        }
        PHUB_RETURN_IF_ERROR(client.push(key));
      }
      if (client.worker_index() == 0) pushed(round);
      for (KeyId key : {0U, 1U}) {
        PHUB_RETURN_IF_ERROR(client.wait(key));
        const float expected = static_cast<float>(3 + 3 * (key + static_cast<KeyId>(round % 8)));
        for (const float value : client.parameter<float>(key)) {
          if (value != expected) return {Code::kDataLoss, options.job.name + ": a wrong sum"};
        }
      }
    }
    return client.worker_index() == 0 ? after() : Status();
  });
}

const auto kNothing = [] { return Status(); };
const auto kGoOn = [](int /*round*/) {};

std::unique_ptr<control::Admin::Stub> admin_of(const TestServer& server) {
  return control::Admin::NewStub(
      grpc::CreateChannel(server.address(), grpc::InsecureChannelCredentials()));
}

}  // namespace

TEST_CASE("Jobs of different transports and sizes share a core, and each sums its own") {
  auto server = TestServer::start(1);
  REQUIRE(server);
  // In the second round and in the last one each job waits, with its pushes under way, until all
  // have come so far: between the two every job has rounds while every other has.
  constexpr int kJobs = 4;
  std::barrier meet(kJobs);
  std::atomic<int> meetings{0};
  std::vector<std::future<Status>> jobs;
  const auto start = [&](const std::string& name, const std::string& transport,
                         std::uint64_t elements) {
    jobs.push_back(std::async(std::launch::async, [&, name, transport, elements] {
      const auto pushed = [&](int round) {
        if (round != 1 && round != kJobRounds - 1) return;
        meet.arrive_and_wait();
        ++meetings;
      };
      return sum(job(**server, name, transport, DataType::kFloat32), elements, pushed, kNothing);
    }));
  };
  start("large-tcp", "tcp", 400'000);
  start("large-shm", "shm", 400'000);
  start("small-tcp", "tcp", 1000);
  start("small-shm", "shm", 1000);
  for (auto& running : jobs) {
    const Status status = running.get();
    INFO(status.message());
    CHECK(status.ok());
  }
  CHECK(meetings == 2 * kJobs);
}

TEST_CASE("A job's times, its cores and its last rounds are told while it lives") {
  auto server = TestServer::start(2);
  REQUIRE(server);
  const auto admin = admin_of(**server);
  control::InspectJobReply inspected;
  control::TraceReply traced;
  control::StatisticsReply statistics;
  const Status status =
      sum(job(**server, "told", "shm", DataType::kFloat32), 100'000, kGoOn, [&]() -> Status {
        control::InspectJobRequest request;
        request.set_name("told");
        grpc::ClientContext inspect_context;
        grpc::ClientContext trace_context;
        grpc::ClientContext statistics_context;
        control::TraceRequest trace_request;
        trace_request.set_name("told");
        trace_request.set_rounds(5);
        const bool all_reply = admin->InspectJob(&inspect_context, request, &inspected).ok() &&
                               admin->Trace(&trace_context, trace_request, &traced).ok() &&
                               admin->Statistics(&statistics_context, {}, &statistics).ok();
        return all_reply ? Status() : Status(Code::kInternal, "a call failed");
      });
  INFO(status.message());
  REQUIRE(status.ok());

  const control::JobTiming& timing = inspected.job().timing();
  CHECK(timing.rounds() >= kJobRounds - 3);
  const double parts = timing.push_seconds() + timing.wait_seconds() + timing.aggregate_seconds() +
                       timing.reply_seconds() + timing.compute_seconds();
  CHECK(parts == Approx(timing.round_seconds()));
  CHECK(timing.core_seconds() > 0);
  REQUIRE(timing.workers_size() == 3);
  double last = 0;
  for (const auto& worker : timing.workers()) last += worker.last_share();
  CHECK(last >= 1.0 - 1e-9);
  std::uint64_t replies = 0;
  for (const std::uint64_t count : timing.push_to_reply().counts()) replies += count;
  const control::JobStatistics& counted = inspected.job().statistics();
  CHECK(replies >= counted.chunks_completed());  // the others' replies may still be on their way
  CHECK(replies <= 3 * counted.chunks_completed());
  REQUIRE(inspected.job().members_size() == 3);
  CHECK(inspected.job().members(1).pushes() == kJobRounds * counted.chunks());

  REQUIRE(traced.records_size() > 0);
  for (const control::RoundRecord& record : traced.records()) {
    CHECK(record.first_push_ns() <= record.complete_ns());
    CHECK(record.complete_ns() <= record.replied_ns());
    CHECK(record.workers_size() == 3);
  }
  CHECK(traced.members_size() == 3);

  std::uint64_t on_cores = 0;
  for (const control::CoreInfo& core : statistics.server().cores()) {
    for (const control::CoreJob& entry : core.jobs()) {
      CHECK(entry.name() == "told");
      CHECK(entry.busy_seconds() > 0);
      on_cores += entry.chunks_completed();
    }
  }
  CHECK(on_cores == counted.chunks_completed());
}

TEST_CASE("A trace of more rounds than are kept is refused with the bound") {
  auto server = TestServer::start(1);
  REQUIRE(server);
  control::TraceRequest request;
  request.set_name("nobody");
  request.set_rounds(257);
  grpc::ClientContext context;
  control::TraceReply reply;
  const grpc::Status status = admin_of(**server)->Trace(&context, request, &reply);
  CHECK_THAT(status.error_message(), Catch::Contains("1 to 256"));
}

}  // namespace phub
