// libphub against a whole daemon: rules, wire types, transports, and what goes wrong.
#include <grpcpp/create_channel.h>

#include <catch2/catch.hpp>
#include <thread>

#include "proto/control.grpc.pb.h"
#include "tests/support/hang_guard.h"
#include "tests/support/run_workers.h"
#include "tests/support/server/test_server.h"
#include "tests/support/transports/tested_transports.h"
#include "worker/client/phub.h"

namespace phub {
namespace {

using std::chrono::milliseconds;

ClientOptions options_for(const TestServer& server, const std::string& transport,
                          std::uint32_t workers) {
  return {.servers = {server.address()},
          .job = {.name = "test", .workers = workers},
          .transport = transport,
          .timeout = testing::kHangGuard};
}

const std::vector<KeySpec> kKeys = {{"a", 10}, {"b", 100'000}, {"c", 1}, {"d", 8193}};

Status sum_rounds(Client& client) {
  for (int round = 0; round < 5; ++round) {
    for (KeyId key = 4; key-- > 0;) {
      for (float& value : client.gradient<float>(key)) {
        value = static_cast<float>(round + 1) * static_cast<float>(client.worker_index() + key);
      }
      PHUB_RETURN_IF_ERROR(client.push(key));
    }
    for (KeyId key = 0; key < 4; ++key) {
      PHUB_RETURN_IF_ERROR(client.wait(key));
      const float n = static_cast<float>(client.workers());
      const float expected =
          static_cast<float>(round + 1) * (n * (n - 1) / 2 + n * static_cast<float>(key));
      for (const float value : client.parameter<float>(key)) {
        if (value != expected) return {Code::kDataLoss, "wrong sum of key " + std::to_string(key)};
      }
    }
  }
  return {};
}

}  // namespace

TEST_CASE(
    "sums are exact over every transport, IPv4 and IPv6, in both orders, one to five workers") {
  for (const char* address : {"127.0.0.1", "[::1]"}) {
    const auto server = std::move(*TestServer::start(2, address));
    for (const std::string& transport : tested_transports()) {
      for (const std::uint32_t workers : {1U, 2U, 5U}) {
        ClientOptions options = options_for(*server, transport, workers);
        options.job.deterministic = workers != 5;
        const Status status = run_workers(options, kKeys, sum_rounds);
        INFO(address << " " << transport << " " << status.to_string());
        REQUIRE(status.ok());
      }
    }
  }
}

TEST_CASE("two servers share the chunks of one job") {
  const auto first = std::move(*TestServer::start(1));
  const auto second = std::move(*TestServer::start(2));
  for (const std::string& transport : tested_transports()) {
    ClientOptions options = options_for(*first, transport, 2);
    options.servers.push_back(second->address());
    const Status status = run_workers(options, kKeys, sum_rounds);
    INFO(transport << " " << status.to_string());
    REQUIRE(status.ok());
  }
}

TEST_CASE("the server shows how each worker came and the reason that the client has") {
  const auto server = std::move(*TestServer::start(1));
  const auto stub = control::Admin::NewStub(
      grpc::CreateChannel(server->address(), grpc::InsecureChannelCredentials()));
  std::vector<std::string> wanted = tested_transports();
  wanted.emplace_back("auto");
  for (const std::string& transport : wanted) {
    ClientOptions options = options_for(*server, transport, 1);
    options.job.name = transport;
    const auto client = std::move(*Client::connect(options));
    REQUIRE(client->register_keys({{"a", 1000}}).ok());
    control::InspectJobRequest request;
    request.set_name(transport);
    control::InspectJobReply reply;
    grpc::ClientContext context;
    REQUIRE(stub->InspectJob(&context, request, &reply).ok());
    const control::Member& member = reply.job().members(0);
    CHECK(member.transport() == client->transport());
    CHECK(member.transport_reason() == (transport == "auto" ? "on the same host" : "as asked for"));
  }
}

TEST_CASE("hyper-parameters of worker 0 hold from the next push on") {
  const auto server = std::move(*TestServer::start(2));
  for (const std::string& transport : tested_transports()) {
    ClientOptions options = options_for(*server, transport, 2);
    options.job.rule = RuleKind::kSgd;
    options.job.hyper.learning_rate = 1.0F;
    const Status status = run_workers(options, {{"w", 20'000}}, [](Client& client) -> Status {
      for (float& value : client.gradient<float>(0)) value = 8.0F;
      PHUB_RETURN_IF_ERROR(client.initialise());
      float expected = 8.0F;
      for (const float rate : {1.0F, 0.5F, 0.25F}) {
        PHUB_RETURN_IF_ERROR(client.set_hyper({.learning_rate = rate, .gradient_scale = 0.0F}));
        for (float& value : client.gradient<float>(0)) value = 2.0F;
        PHUB_RETURN_IF_ERROR(client.push_pull(0));
        expected -= rate * 2.0F;
        for (const float value : client.parameter<float>(0)) {
          if (value != expected) return {Code::kDataLoss, "wrong update"};
        }
      }
      return {};
    });
    INFO(transport << " " << status.to_string());
    REQUIRE(status.ok());
  }
}

TEST_CASE("hyper-parameters that a connection may not have are not to be set either") {
  const auto server = std::move(*TestServer::start(1));
  ClientOptions options = options_for(*server, tested_transports().front(), 2);
  const auto refused = [&](const Hyper& hyper) {
    std::string error = "none";
    const Status status = run_workers(options, {{"w", 100}}, [&](Client& client) -> Status {
      PHUB_RETURN_IF_ERROR(client.initialise());
      const Status set = client.set_hyper(hyper);
      if (client.worker_index() == 0 && !set.ok()) error = set.message();
      return {};
    });
    CHECK(status.ok());
    return error;
  };
  using Catch::Matchers::Contains;
  options.job.rule = RuleKind::kElastic;
  options.job.hyper.learning_rate = 0.25F;
  CHECK(refused({.learning_rate = 0.49F, .gradient_scale = 0.5F}) == "none");
  CHECK_THAT(refused({.learning_rate = 0.5F, .gradient_scale = 0.0F}), Contains("below 1 / the"));
  CHECK_THAT(refused({.learning_rate = 0.2F, .gradient_scale = 1.0F}), Contains("1 / workers"));
  CHECK_THAT(refused({.learning_rate = 0.2F, .momentum = 0.9F, .gradient_scale = 0.0F}),
             Contains("no momentum"));
  options.job.rule = RuleKind::kSgd;
  CHECK_THAT(refused({.learning_rate = -1.0F}), Contains("not negative"));
  CHECK_THAT(refused({.learning_rate = 1.0F, .samples = 1e-39F}), Contains("2^-24"));
}

TEST_CASE("a worker that vanishes in a round is named to the others, and the server serves on") {
  const auto server = std::move(*TestServer::start(2));
  for (const std::string& transport : tested_transports()) {
    const ClientOptions options = options_for(*server, transport, 3);
    const Status status = run_workers(options, kKeys, [](Client& client) -> Status {
      PHUB_RETURN_IF_ERROR(sum_rounds(client));
      if (client.worker_index() == 1) {
        // Leaves with a round open: the others wait for a push that never comes.
        return client.push(0);
      }
      PHUB_RETURN_IF_ERROR(client.push(1));
      Status lost = client.wait(1);
      if (lost.ok()) return {Code::kInternal, "a round ended without worker 1"};
      if (lost.message().find("worker 1") == std::string::npos) return lost;
      return {};
    });
    INFO(transport << " " << status.to_string());
    CHECK(status.ok());
    const Status again = run_workers(options, kKeys, sum_rounds);
    INFO(again.to_string());
    CHECK(again.ok());
  }
}

TEST_CASE("waiting for a key whose chunk waits for another key says so") {
  const auto server = std::move(*TestServer::start(1));
  ClientOptions options = options_for(*server, tested_transports().back(), 1);
  options.timeout = milliseconds(500);
  // A machine that is too slow to come as far in that time tries again.
  bool has_pushed = false;
  Status status;
  while (!has_pushed) {
    status = run_workers(options, {{"a", 10}, {"b", 10}}, [&](Client& client) -> Status {
      PHUB_RETURN_IF_ERROR(client.push(0));
      has_pushed = true;
      return client.wait(0);
    });
  }
  CHECK(status.code() == Code::kDeadlineExceeded);
  CHECK(status.message().find("shares a chunk with key b") != std::string::npos);
}

TEST_CASE("wrong options and wrong calls are refused with the field") {
  const auto server = std::move(*TestServer::start(1));
  CHECK(Client::connect({}).error().message().find("servers") != std::string::npos);
  ClientOptions options = options_for(*server, "carrier pigeon", 1);
  CHECK(Client::connect(options).error().message().find("transport") != std::string::npos);
  // The two keys share a chunk: until both are pushed, nothing can be answered.
  const std::vector<KeySpec> keys = {{"a", 10}, {"b", 10}};
  const Status status =
      run_workers(options_for(*server, tested_transports().back(), 1), keys, [](Client& client) {
        CHECK_FALSE(client.push(99).ok());
        CHECK_FALSE(client.initialise().ok());
        CHECK(client.push(1).ok());
        CHECK_FALSE(client.push(1).ok());
        CHECK_FALSE(client.set_hyper({}).ok());
        CHECK(client.push(0).ok());
        return client.wait_all();
      });
  CHECK(status.ok());
}

TEST_CASE("a worker that connects too long after its join is told that its secret has expired") {
  server::DaemonOptions with;
  with.data_plane.cores = 1;
  with.join_secret_lifetime = milliseconds(0);
  const auto server = std::move(*TestServer::start(with));
  for (const std::string& transport : tested_transports()) {
    INFO(transport);
    ClientOptions options = options_for(*server, transport, 1);
    options.job.name = "late-" + transport;
    const Status status = (*Client::connect(options))->register_keys(kKeys);
    CHECK(status.code() == Code::kPermissionDenied);
    CHECK(status.message().find("has expired") != std::string::npos);
    CHECK(status.message().find("join_secret_lifetime_ms") != std::string::npos);
  }
}

TEST_CASE("a missing worker is named when the start times out") {
  const auto server = std::move(*TestServer::start(1));
  ClientOptions options = options_for(*server, tested_transports().front(), 2);
  options.worker_index = 0;
  options.timeout = milliseconds(500);
  const auto deadline = std::chrono::steady_clock::now() + testing::kHangGuard;
  bool is_named = false;  // else a slow machine has not come as far as the start
  while (!is_named && std::chrono::steady_clock::now() < deadline) {
    const Status status = (*Client::connect(options))->register_keys(kKeys);
    CHECK(status.code() == Code::kDeadlineExceeded);
    is_named = status.message().find("worker 1 has not joined") != std::string::npos;
  }
  CHECK(is_named);
}

}  // namespace phub
