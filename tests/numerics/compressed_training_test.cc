// LeNet on the bundled MNIST images with a hundredth of its gradients, or with few bits of them:
// with error feedback it learns as with all of them, without it does not.
#include <catch2/catch.hpp>
#include <thread>

#include "tests/support/server/test_server.h"
#include "worker/train/session.h"

namespace phub::train {
namespace {

constexpr std::uint32_t kWorkers = 2;
constexpr std::uint64_t kSteps = 300;

// The test accuracy that two workers reach together, in percent.
double accuracy_with(const TestServer& server, const CompressOptions& compress) {
  std::vector<Status> statuses(kWorkers);
  std::vector<double> accuracies(kWorkers);
  std::vector<std::thread> threads;
  for (std::uint32_t w = 0; w < kWorkers; ++w) {
    threads.emplace_back([&, w] {
      const SessionOptions options{
          .executor = {.batch = 32},
          .data = {.path = PHUB_MNIST_PATH},
          .update = {.schedule = {.learning_rate = 0.05F, .warmup_steps = 20}},
          .epochs = 10,
          .max_steps = kSteps,
          .workers = kWorkers};
      const ClientOptions client{.servers = {server.address()},
                                 .job = "compressed",
                                 .workers = kWorkers,
                                 .worker_index = static_cast<std::int32_t>(w),
                                 .rule = RuleKind::kSgd,
                                 .compress = compress};
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

}  // namespace
}  // namespace phub::train
