// A server with the tenants red and blue, each with a job of the same name, and what their workers
// do: rounds of sums of small integers, which are exact.
//
// The workers are threads of the test.
#pragma once

#include <algorithm>
#include <string>

#include "tests/support/lab.h"
#include "tests/support/run_workers.h"
#include "tests/support/server/test_server.h"

namespace phub::testing {

class TwoTenants {
 public:
  explicit TwoTenants(std::uint32_t cores) {
    spdlog::set_level(spdlog::level::off);
    server::DaemonOptions with;
    with.data_plane.cores = cores;
    with.tenancy.state_folder = folder_.path / "state";
    server_ = std::move(*TestServer::start(with));
    admin_ = control::Admin::NewStub(
        grpc::CreateChannel(server_->address(), grpc::InsecureChannelCredentials()));
    for (const char* const tenant : {"red", "blue"}) {
      control::CreateTenantRequest request;
      request.set_name(tenant);
      control::CreateTenantReply reply;
      REQUIRE(ask(*admin_, "", &control::Admin::Stub::CreateTenant, request, reply).ok());
    }
  }

  ClientOptions job_of(const std::string& tenant, const std::string& transport) const {
    ClientOptions options{.servers = {server_->address()},
                          .job = {.name = "demo", .workers = 2},
                          .transport = transport,
                          .timeout = std::chrono::milliseconds(60'000)};
    options.security.tenant = tenant;
    return options;
  }

  grpc::Status close_job_of(const std::string& tenant) const {
    control::CloseJobRequest request;
    request.set_name("demo");
    request.set_tenant(tenant);
    control::CloseJobReply reply;
    return ask(*admin_, "", &control::Admin::Stub::CloseJob, request, reply);
  }

  control::JobInfo inspect_job_of(const std::string& tenant) const {
    control::InspectJobRequest request;
    request.set_name("demo");
    request.set_tenant(tenant);
    control::InspectJobReply reply;
    REQUIRE(ask(*admin_, "", &control::Admin::Stub::InspectJob, request, reply).ok());
    return reply.job();
  }

 private:
  const TemporaryDirectory folder_;
  std::unique_ptr<TestServer> server_;
  std::unique_ptr<control::Admin::Stub> admin_;
};

// What a worker pushes in a round, at each element of a key.
inline float pushed_value(float own, int round, std::uint32_t worker, KeyId key) {
  return own + static_cast<float>(round % 16) + static_cast<float>(worker + key);
}

// One round of one of two workers; an error if a sum is not right.
inline Status sum_round(Client& client, float own, int round) {
  for (const KeyId key : {0U, 1U}) {
    const auto gradient = client.gradient<float>(key);
    std::fill(gradient.begin(), gradient.end(),
              pushed_value(own, round, client.worker_index(), key));
    PHUB_RETURN_IF_ERROR(client.push(key));
  }
  for (const KeyId key : {0U, 1U}) {
    PHUB_RETURN_IF_ERROR(client.wait(key));
    const float expected = pushed_value(own, round, 0, key) + pushed_value(own, round, 1, key);
    const auto sums = client.parameter<float>(key);
    if (!std::all_of(sums.begin(), sums.end(), [=](float sum) { return sum == expected; })) {
      return {Code::kDataLoss, "a wrong sum"};
    }
  }
  return {};
}

}  // namespace phub::testing
