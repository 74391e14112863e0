// LeNet on the bundled MNIST images with a hundredth of its gradients, or with few bits of them:
// with error feedback it learns as with all of them, without it does not. The same of racks' sums.
#include <catch2/catch.hpp>
#include <functional>
#include <thread>

#include "tests/support/server/racks/joined_servers.h"
#include "tests/support/server/test_server.h"
#include "worker/train/session.h"

namespace phub::train {
namespace {

constexpr std::uint64_t kTrainingSteps = 300;
constexpr std::uint32_t kImages = 64;  // of a step, of all workers together

using ServersOf = std::function<std::vector<std::string>(std::uint32_t worker)>;

// The test accuracy that the workers of this job reach together, in percent.
double accuracy_of(const ClientOptions& job, const ServersOf& servers) {
  std::vector<Status> statuses(job.job.workers);
  std::vector<double> accuracies(job.job.workers);
  std::vector<std::thread> threads;
  for (std::uint32_t w = 0; w < job.job.workers; ++w) {
    threads.emplace_back([&, w] {
      const SessionOptions options{
          .executor = {.batch = kImages / job.job.workers},
          .data = {.path = PHUB_MNIST_PATH},
          .update = {.schedule = {.learning_rate = 0.05F, .warmup_steps = 20}},
          .epochs = 10,
          .max_steps = kTrainingSteps,
          .workers = job.job.workers};
      ClientOptions client = job;
      client.servers = servers(w);
      client.worker_index = static_cast<std::int32_t>(w);
      client.job.rule = RuleKind::kSgd;
      const auto result = run_session(
          options,
          [&](const std::vector<KeySpec>& keys) { return make_remote_exchange(client, keys); },
          [] { return false; });
      statuses[w] = result ? Status() : result.error();
      if (result) accuracies[w] = 100 * result->test_accuracy;
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const Status& status : statuses) {
    INFO(status.to_string());
    REQUIRE(status.ok());
  }
  return accuracies[0];
}

double accuracy_with(const TestServer& server, const CompressOptions& compress) {
  return accuracy_of(
      {.servers = {}, .job = {.name = "compressed", .workers = 2}, .compress = compress},
      [&](std::uint32_t) { return std::vector<std::string>{server.address()}; });
}

// Of two racks of two workers.
double accuracy_across(const JoinedServers& racks, const RackCompress& compress) {
  static int jobs = 0;
  return accuracy_of({.servers = {},
                      .job = {.name = "across" + std::to_string(++jobs),
                              .workers = 4,
                              .racks = {{racks.name(0), 2}, {racks.name(1), 2}},
                              .rack_compress = compress}},
                     [&](std::uint32_t worker) { return racks.addresses(worker / 2); });
}

TEST_CASE("with less of its gradients LeNet is within a point of all of them, by feedback") {
  const auto server = std::move(*TestServer::start(1));
  const double dense = accuracy_with(*server, {});
  const double with = accuracy_with(*server, {.encoding = Encoding::kSparse, .density = 0.01F});
  const double without = accuracy_with(
      *server, {.encoding = Encoding::kSparse, .density = 0.01F, .error_feedback = false});
  const double int8 = accuracy_with(*server, {.encoding = Encoding::kInt8});
  const double int4 = accuracy_with(*server, {.encoding = Encoding::kInt4});
  CAPTURE(dense, with, without, int8, int4);
  CHECK(int8 >= dense - 1.0);
  CHECK(int4 >= dense - 1.0);
  CHECK(with >= dense - 1.0);
  CHECK(without <= dense - 1.5);
}

TEST_CASE("with less of their sums racks are within a point of all of them, by feedback") {
  const JoinedServers racks({.transport = "tcp", .cores = 1});
  const double dense = accuracy_across(racks, {});
  const double with = accuracy_across(racks, {.density = 0.01F});
  const double without = accuracy_across(racks, {.density = 0.01F, .error_feedback = false});
  CAPTURE(dense, with, without);
  CHECK(with >= dense - 1.0);
  CHECK(without <= dense - 1.5);
}

}  // namespace
}  // namespace phub::train
