// Workers that change a server's parameters themselves, over shared memory.
#include <atomic>
#include <barrier>
#include <catch2/catch.hpp>

#include "tests/support/hang_guard.h"
#include "tests/support/run_workers.h"
#include "tests/support/server/test_server.h"
#include "worker/client/phub.h"

namespace phub::testing {
namespace {

using Catch::Matchers::Contains;

constexpr std::uint32_t kWorkers = 3;

ClientOptions hogwild(const TestServer& server, const std::string& transport = "shm") {
  ClientOptions options{.servers = {server.address()},
                        .job = {.name = "hogwild", .workers = kWorkers},
                        .transport = transport,
                        .timeout = kHangGuard};
  options.job.rule = RuleKind::kSgd;
  options.job.hyper.learning_rate = 0.5F;
  options.job.deterministic = false;
  options.job.rounds = {.quorum = 1, .late = LatePushes::kAdd, .hogwild = true};
  return options;
}

// Others may write to them.
float read(const float& shared) {
  return std::atomic_ref(const_cast<float&>(shared)).load(std::memory_order_relaxed);
}

float first_of(const Client& client) { return read(client.parameter<float>(0).front()); }

bool all_are(const Client& client, KeyId key, float expected) {
  const auto values = client.parameter<float>(key);
  return std::all_of(values.begin(), values.end(),
                     [&](const float& value) { return read(value) == expected; });
}

TEST_CASE("each sees at once what the others have changed, and the server counts") {
  const auto server = std::move(*TestServer::start(2));
  std::barrier turns(kWorkers);
  const Status status = run_workers(
      hogwild(*server), {{"w", 20'000, 0.25F}, {"v", 10}}, [&](Client& client) -> Status {
        for (float& value : client.gradient<float>(0)) value = 8.0F;
        for (float& value : client.gradient<float>(1)) value = 1.0F;
        PHUB_RETURN_IF_ERROR(client.initialise());
        float expected = 8.0F;
        float other = 1.0F;
        for (std::uint32_t step = 0; step < 4 * kWorkers; ++step) {
          if (step % kWorkers == client.worker_index()) {
            for (float& value : client.gradient<float>(0)) value = 2.0F;
            for (float& value : client.gradient<float>(1)) value = 0.25F;
            PHUB_RETURN_IF_ERROR(client.push(0));
            PHUB_RETURN_IF_ERROR(client.push(1));
            PHUB_RETURN_IF_ERROR(client.wait_all());
          }
          turns.arrive_and_wait();
          expected -= 0.5F * (2.0F + 0.25F * expected);
          other -= 0.5F * 0.25F;
          if (!all_are(client, 0, expected) || !all_are(client, 1, other))
            return {Code::kDataLoss, "not what was pushed"};
          turns.arrive_and_wait();
        }
        return {};
      });
  INFO(status.to_string());
  CHECK(status.ok());
}

TEST_CASE("all at once: changes may be lost, and none is made twice") {
  constexpr std::uint32_t kSteps = 50;
  const auto server = std::move(*TestServer::start(2));
  const Status status = run_workers(hogwild(*server), {{"w", 5000}}, [&](Client& client) -> Status {
    for (float& value : client.gradient<float>(0)) value = 0.0F;
    PHUB_RETURN_IF_ERROR(client.initialise());
    for (float& value : client.gradient<float>(0)) value = -2.0F;
    for (std::uint32_t step = 0; step < kSteps; ++step) {
      PHUB_RETURN_IF_ERROR(client.push_pull(0));
    }
    const float sum = first_of(client);
    if (sum < 1.0F || sum > kWorkers * kSteps) return {Code::kDataLoss, std::to_string(sum)};
    return {};
  });
  INFO(status.to_string());
  CHECK(status.ok());
}

TEST_CASE("what shares no memory is refused with its reason") {
  const auto server = std::move(*TestServer::start(1));
  CHECK_THAT(Client::connect(hogwild(*server, "tcp")).error().message(),
             Contains("transport: \"tcp\"") && Contains("use shm"));
  ClientOptions options = hogwild(*server);
  options.servers.push_back("127.0.0.1:1");
  CHECK_THAT(Client::connect(options).error().message(),
             Contains("servers: 2, and rounds.hogwild"));
}

}  // namespace
}  // namespace phub::testing
