// Two tenants train at once on the same cores; one loses its job, the other does not notice.
#include <catch2/catch.hpp>
#include <climits>
#include <future>

#include "tests/support/lab.h"
#include "tests/support/run_workers.h"
#include "tests/support/test_server.h"

namespace phub::testing {
namespace {

using control::Admin;

constexpr std::uint64_t kElements = 60'000;
constexpr int kRoundsAfter = 30;

ClientOptions job_of(const TestServer& server, const std::string& tenant,
                     const std::string& transport) {
  ClientOptions options{.servers = {server.address()},
                        .job = "demo",
                        .workers = 2,
                        .transport = transport,
                        .timeout = std::chrono::milliseconds(20'000)};
  options.security.tenant = tenant;
  return options;
}

// Sums of small integers are exact. `after_round` says, at worker 0, which round is the last.
template <typename AfterRound>
Status sum(const ClientOptions& options, float own, AfterRound after_round) {
  std::atomic<int> last{INT_MAX};
  return run_workers(options, {{"a", kElements}, {"b", 5}}, [&](Client& client) -> Status {
    for (int round = 0; round <= last.load(); ++round) {
      for (const KeyId key : {0U, 1U}) {
        const float value =
            own + static_cast<float>(round % 16) + static_cast<float>(client.worker_index() + key);
        for (float& element : client.gradient<float>(key)) element = value;
        PHUB_RETURN_IF_ERROR(client.push(key));
      }
      for (const KeyId key : {0U, 1U}) {
        PHUB_RETURN_IF_ERROR(client.wait(key));
        const float expected =
            2 * (own + static_cast<float>(round % 16) + static_cast<float>(key)) + 1;
        for (const float element : client.parameter<float>(key)) {
          if (element != expected) return {Code::kDataLoss, "a wrong sum"};
        }
      }
      if (client.worker_index() == 0) last.store(std::min(last.load(), after_round(round)));
    }
    return {};
  });
}

}  // namespace

TEST_CASE("a tenant's sums stay right while another tenant's job is closed beside them") {
  spdlog::set_level(spdlog::level::off);
  for (const char* const transport : {"shm", "tcp"}) {
    INFO(transport);
    const TemporaryDirectory folder;
    server::DaemonOptions with;
    with.data_plane.cores = 2;
    with.tenancy.state_folder = folder.path / "state";
    const auto server = std::move(*TestServer::start(with));
    const auto admin =
        Admin::NewStub(grpc::CreateChannel(server->address(), grpc::InsecureChannelCredentials()));
    for (const char* const tenant : {"red", "blue"}) {
      control::CreateTenantRequest request;
      request.set_name(tenant);
      control::CreateTenantReply reply;
      REQUIRE(ask(*admin, "", &Admin::Stub::CreateTenant, request, reply).ok());
    }
    std::promise<void> red_trains;
    std::promise<void> blue_trains;
    std::atomic<bool> red_is_over{false};
    auto red = std::async(std::launch::async, [&] {
      const Status status = sum(job_of(*server, "red", transport), 1.0F, [&](int round) {
        if (round == 10) red_trains.set_value();
        return INT_MAX;
      });
      red_is_over = true;
      return status;
    });
    auto blue = std::async(std::launch::async, [&] {
      return sum(job_of(*server, "blue", transport), 100.0F, [&](int round) {
        if (round == 10) blue_trains.set_value();
        return red_is_over.load() && round > 10 ? round + kRoundsAfter : INT_MAX;
      });
    });
    for (std::promise<void>* const trains : {&red_trains, &blue_trains}) {
      REQUIRE(trains->get_future().wait_for(std::chrono::seconds(30)) == std::future_status::ready);
    }
    control::CloseJobRequest close;
    close.set_name("demo");
    close.set_tenant("red");
    control::CloseJobReply closed;
    REQUIRE(ask(*admin, "", &Admin::Stub::CloseJob, close, closed).ok());
    CHECK(red.get().message().find("closed by an administrator") != std::string::npos);
    const Status status = blue.get();
    INFO(status.message());
    CHECK(status.ok());
  }
}

}  // namespace phub::testing
