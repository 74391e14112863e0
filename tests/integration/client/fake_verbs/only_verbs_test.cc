// What is special about verbs: same bits as tcp, nothing left behind, a choice with its reason.
#include <catch2/catch.hpp>
#include <thread>

#include "tests/support/hang_guard.h"
#include "tests/support/server/test_server.h"
#include "tests/support/transports/fake_verbs.h"
#include "worker/client/phub.h"

namespace phub {
namespace {

// Two workers, a few rounds of Nesterov with values that do not sum exactly; worker 0's parameters.
std::vector<float> trained(const TestServer& server, const std::string& transport) {
  std::vector<float> parameters;
  std::vector<std::thread> workers;
  for (std::int32_t w = 0; w < 2; ++w) {
    workers.emplace_back([&, w] {
      auto client =
          std::move(*Client::connect({.servers = {server.address()},
                                      .job = {.name = "bits " + transport,
                                              .workers = 2,
                                              .rule = RuleKind::kNesterov,
                                              .hyper = {.learning_rate = 0.1F, .momentum = 0.9F}},
                                      .worker_index = w,
                                      .transport = transport,
                                      .timeout = testing::kHangGuard}));
      PHUB_CHECK(client->register_keys({{"a", 50'001}, {"b", 7}}).ok(), "register");
      PHUB_CHECK(client->transport() == transport, "the transport that was asked for");
      const auto fill = [&](float scale) {
        for (KeyId key = 0; key < 2; ++key) {
          float value = scale;
          for (float& gradient : client->gradient<float>(key)) gradient = value = value * 1.0001F;
        }
      };
      fill(1.0F);
      PHUB_CHECK(client->initialise().ok(), "initialise");
      for (int round = 0; round < 5; ++round) {
        fill(0.3F + static_cast<float>(w + round) / 7.0F);
        PHUB_CHECK(client->push(0).ok() && client->push(1).ok() && client->wait_all().ok(),
                   "round");
      }
      const auto result = client->parameter<float>(0);
      if (w == 0) parameters.assign(result.begin(), result.end());
    });
  }
  for (auto& worker : workers) worker.join();
  return parameters;
}

}  // namespace

TEST_CASE("deterministic training has the same bits over verbs, tcp and shm") {
  {
    const auto server = std::move(*TestServer::start(2));
    const std::vector<float> verbs = trained(*server, "verbs");
    REQUIRE(verbs.size() == 50'001);
    CHECK(verbs == trained(*server, "tcp"));
    CHECK(verbs == trained(*server, "shm"));
  }
  CHECK(fake_verbs::live_objects() == 0);
}

TEST_CASE("a thousand connections come and go without a trace") {
  {
    const auto server = std::move(*TestServer::start(2));
    const int level = fake_verbs::live_objects();
    for (int i = 0; i < 500; ++i) {  // each client has two connections
      auto client = std::move(*Client::connect({.servers = {server->address()},
                                                .job = {.name = "once"},
                                                .transport = "verbs",
                                                .timeout = testing::kHangGuard}));
      REQUIRE(client->register_keys({{"a", 20'000}}).ok());
      REQUIRE(client->push_pull(0).ok());
    }
    // The server lets go of the last job soon after its last worker has left.
    const auto deadline = std::chrono::steady_clock::now() + testing::kHangGuard;
    while (fake_verbs::live_objects() > level && std::chrono::steady_clock::now() < deadline) {
      std::this_thread::yield();
    }
    CHECK(fake_verbs::live_objects() == level);
  }
  CHECK(fake_verbs::live_objects() == 0);
}

TEST_CASE("memory that cannot be registered, here or there, ends the job with the cure") {
  const auto server = std::move(*TestServer::start(1));
  // The client registers two regions; then it is the server's turn.
  for (const int registrations : {0, 2}) {
    INFO(registrations << " registrations succeed");
    fake_verbs::behaviour().registrations = registrations;
    auto client = std::move(*Client::connect({.servers = {server->address()},
                                              .job = {.name = "locked", .workers = 1},
                                              .transport = "verbs",
                                              .timeout = testing::kHangGuard}));
    const Status status = client->register_keys({{"a", 1000}});
    fake_verbs::behaviour().registrations = -1;
    CHECK_FALSE(status.ok());
    CHECK_THAT(status.message(), Catch::Contains("memlock"));
    if (registrations > 0) CHECK_THAT(status.message(), Catch::Contains("worker 0"));
  }
  CHECK(trained(*server, "verbs").size() == 50'001);
}

TEST_CASE("the choice of a transport comes with its reason") {
  const auto server = std::move(*TestServer::start(1));
  auto client =
      std::move(*Client::connect({.servers = {server->address()}, .job = {.name = "choice"}}));
  REQUIRE(client->register_keys({{"a", 1000}}).ok());
  CHECK(client->transport() == "shm");
  CHECK_THAT(std::string(client->transport_reason()), Catch::Contains("on the same host"));
}

}  // namespace phub
