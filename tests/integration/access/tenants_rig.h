// A daemon with the tenants red and blue, a token of each and an observer's.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/rendezvous/rendezvous.h"
#include "tests/support/lab.h"

namespace phub::testing {

using Catch::Matchers::Contains;
using client::Rendezvous;
using control::Admin;
using control::Snapshots;

inline constexpr std::chrono::milliseconds kLong{60'000};  // bounds a test that hangs

inline JobSpec job_of(const std::string& name, std::uint32_t workers = 1) {
  return {.name = name, .workers = workers, .keys = {{.name = "w", .elements = 1000}}};
}

struct Tenants : Lab {
  Tenants() : Lab(/*with_tls=*/false) {
    red = token_for("red");
    blue = token_for("blue");
    observer = new_token("observer", "");
  }
  std::string new_token(const std::string& role, const std::string& tenant) {
    control::CreateTokenRequest request;
    request.set_role(role);
    request.set_tenant(tenant);
    control::CreateTokenReply reply;
    REQUIRE(ask(*stub, admin_token(), &Admin::Stub::CreateToken, request, reply).ok());
    last_token_id = reply.info().token_id();
    return reply.token();
  }
  std::string token_for(const std::string& tenant) {
    control::CreateTenantRequest request;
    request.set_name(tenant);
    control::CreateTenantReply reply;
    REQUIRE(ask(*stub, admin_token(), &Admin::Stub::CreateTenant, request, reply).ok());
    return new_token("tenant", tenant);
  }
  grpc::Status create(const std::string& token, const std::string& name,
                      const std::string& tenant = "") {
    control::CreateJobRequest request;
    request.mutable_spec()->set_name(name);
    request.mutable_spec()->set_workers(2);
    request.set_tenant(tenant);
    return ask(*stub, token, &Admin::Stub::CreateJob, request, created);
  }
  Result<client::JoinInfo> join(const std::string& token, const std::string& name,
                                const std::string& tenant = "") {
    ClientSecurity shown = security("", token);
    shown.tenant = tenant;
    members.push_back(std::move(*Rendezvous::create(address(), shown)));
    return members.back()->join(job_of(name), kLong);
  }
  std::unique_ptr<Admin::Stub> stub = admin_stub("");
  std::string red, blue, observer;
  std::uint64_t last_token_id = 0;
  control::CreateJobReply created;
  std::vector<std::unique_ptr<Rendezvous>> members;
};

}  // namespace phub::testing
