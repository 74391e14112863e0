// Joins in several messages, and joins that are refused before the first is read.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "common/rendezvous/membership.h"
#include "common/rendezvous/rendezvous.h"
#include "common/rpc/status.h"
#include "proto/control.grpc.pb.h"
#include "server/rpc/authorizer.h"
#include "server/tenants/key_allowance.h"
#include "tests/support/server/async_calls.h"
#include "tests/support/server/control_plane.h"

namespace phub::testing {
namespace {

using Catch::Matchers::Contains;
using client::Rendezvous;

constexpr std::chrono::milliseconds kJoinLimit{60'000};

JobSpec job_with(std::size_t keys) {
  JobSpec job{.name = "demo", .workers = 2};
  for (std::size_t i = 0; i < keys; ++i) {
    job.keys.push_back(
        {.name = fmt::format("a.layer.with.a.long.name.{:06}", i), .elements = i + 1});
  }
  return job;
}

// A worker with a token or a nonce.
Result<client::JoinInfo> join(SecuredControlPlane& plane, const std::string& file,
                              const std::string& proof, const JobSpec& job) {
  plane.folder.write(file, proof + "\n");
  ClientSecurity security;
  (file == "nonce" ? security.nonce_file : security.token_file) = plane.folder.path / file;
  return Rendezvous::create(plane.service->address(), security).value()->join(job, kJoinLimit);
}

TEST_CASE("keys that fill many messages arrive in order, at each worker's join") {
  SecuredControlPlane plane;
  const std::string token = plane.token_of("red");
  const JobSpec job = job_with(20'000);
  REQUIRE(join(plane, "token", token, job));
  const auto view = plane.table->views.inspect({"red", "demo"}, 0).value();
  REQUIRE(view.spec->keys.size() == job.keys.size());
  for (std::size_t i = 0; i < job.keys.size(); ++i) {
    REQUIRE(view.spec->keys[i].name == job.keys[i].name);
    REQUIRE(view.spec->keys[i].elements == job.keys[i].elements);
  }
  JobSpec other = job;
  other.keys.back().elements += 1;
  CHECK_THAT(join(plane, "token", token, other).error().message(),
             Contains("keys[19999]") && Contains("elements is 20000"));
  CHECK(join(plane, "token", token, job));
}

// Of a join with one key, after which more is to follow.
control::JoinRequest first_part() {
  control::JoinRequest part;
  part.set_host("here");
  part.set_more(true);
  part.mutable_spec()->set_name("demo");
  part.mutable_spec()->set_workers(1);
  part.mutable_spec()->add_keys()->set_name("a");
  part.mutable_spec()->mutable_keys(0)->set_elements(1);
  return part;
}

TEST_CASE("a join that breaks off between two messages makes no job") {
  SecuredControlPlane plane;
  const auto stub = control::Rendezvous::NewStub(plane.channel());
  grpc::ClientContext context;
  context.AddMetadata("authorization", "Bearer " + plane.token_of("red"));
  const control::JoinRequest part = first_part();
  control::JoinReply reply;
  const auto parts = stub->Join(&context, &reply);
  REQUIRE(parts->Write(part));
  REQUIRE(parts->WritesDone());
  CHECK(parts->Finish().error_code() == grpc::StatusCode::CANCELLED);
  CHECK(plane.table->views.list().empty());
}

// A tenant has four threads for joins and readies.
TEST_CASE("a join that waits for its turn and is given up is not executed") {
  SecuredControlPlane plane;
  const std::string token = plane.token_of("red");
  plane.folder.write("token", token + "\n");
  const ClientSecurity red{.token_file = plane.folder.path / "token"};
  std::promise<void> release;
  const std::shared_future<void> released = release.get_future().share();
  std::atomic<int> busy = 0;
  plane.data_plane.on_create = [&] {
    ++busy;
    released.wait();
  };
  std::vector<std::future<bool>> readies;
  for (int i = 0; i < 4; ++i) {
    readies.push_back(std::async(std::launch::async, [&, i] {
      JobSpec job = job_with(1);
      job.name += std::to_string(i);
      const auto member = client::join_all({plane.service->address()}, job, kJoinLimit, red);
      return member && client::agree_on_plan(*member, job, kJoinLimit).has_value();
    }));
  }
  while (busy < 4) std::this_thread::yield();
  const auto stub = control::Rendezvous::NewStub(plane.channel());
  control::JoinRequest only = first_part();
  only.set_more(false);
  {
    grpc::ClientContext context;
    context.AddMetadata("authorization", "Bearer " + token);
    control::JoinReply reply;
    const auto parts = stub->Join(&context, &reply);
    parts->WaitForInitialMetadata();  // it is admitted
    REQUIRE(parts->Write(only));
    parts->WritesDone();
    context.TryCancel();
    CHECK(parts->Finish().error_code() == grpc::StatusCode::CANCELLED);
  }
  // What comes behind it on the same connection is answered: the server has heard of the end.
  for (int i = 0; i < 20; ++i) {
    grpc::ClientContext context;
    control::HeartbeatReply reply;
    CHECK_FALSE(stub->Heartbeat(&context, control::HeartbeatRequest(), &reply).ok());
  }
  release.set_value();
  for (auto& ready : readies) CHECK(ready.get());
  JobSpec later = job_with(1);
  later.name = "later";
  REQUIRE(join(plane, "token", token, later));
  const auto demo = plane.table->views.inspect({"red", "demo"}, 0);
  CHECK((!demo || demo->state == server::JobState::kEnded));
}

// What becomes of a join as rack b, for tenant red.
grpc::Status join_as_rack(const SecuredControlPlane& plane, const std::string& proof,
                          const std::string& shared_id) {
  control::JoinRequest only = first_part();
  only.set_more(false);
  only.set_rack("b");
  only.set_tenant("red");
  only.set_tenant_shared_id(shared_id);
  const auto stub = control::Rendezvous::NewStub(plane.channel());
  grpc::ClientContext context;
  context.AddMetadata("authorization", proof);
  control::JoinReply reply;
  const auto parts = stub->Join(&context, &reply);
  parts->Write(only);
  parts->WritesDone();
  return parts->Finish();
}

bool has_audited(const SecuredControlPlane& plane, const std::string& outcome) {
  const auto records = plane.tenancy->audit.last(100).value();
  return std::any_of(records.begin(), records.end(), [&](const auto& record) {
    return record.action == "join as rack" && record.object == "b for red/demo" &&
           record.outcome.find(outcome) != std::string::npos;
  });
}

TEST_CASE("a tenant's token and a job's nonce let nobody join as a rack, and the try is audited") {
  SecuredControlPlane plane;
  const grpc::Status refused = join_as_rack(plane, "Bearer " + plane.token_of("red"), "");
  CHECK(refused.error_code() == grpc::StatusCode::PERMISSION_DENIED);
  CHECK_THAT(refused.error_message(), Contains("has the role tenant"));
  CHECK(has_audited(plane, "has the role tenant"));
  const std::uint64_t id =
      plane.table->life.create({.name = "demo", .workers = 1}, "red", server::digest_of("word"))
          .value();
  const grpc::Status ticket = join_as_rack(plane, fmt::format("Ticket {}:word", id), "");
  CHECK_THAT(ticket.error_message(), Contains("lets workers in, and no other rack"));
}

TEST_CASE("a rack joins for a tenant only if both sides have said that it is one") {
  SecuredControlPlane plane;
  plane.token_of("red");
  const std::string admin =
      "Bearer " + plane.tenancy->tokens.create(server::Role::kAdmin, {}, "", 0)->text;
  CHECK_THAT(join_as_rack(plane, admin, "").error_message(),
             Contains("nobody has said that \"red\" of rack b and \"red\" here are one"));
  CHECK_THAT(join_as_rack(plane, admin, "one").error_message(), Contains("is one there and none"));
  REQUIRE(plane.tenancy->directory.share("red", "one"));
  CHECK_THAT(join_as_rack(plane, admin, "other").error_message(),
             Contains("is other there and one here"));
  CHECK(has_audited(plane, "is other there and one here"));
  // It is let in, and then the job has no such rack.
  CHECK_THAT(join_as_rack(plane, admin, "one").error_message(), Contains("is no other rack"));
}

TEST_CASE("a join whose messages do not come is refused") {
  SecuredControlPlane plane(std::chrono::milliseconds(20));
  const std::string red = "Bearer " + plane.token_of("red");
  const auto stub = control::Rendezvous::NewStub(plane.channel());
  const control::JoinRequest part = first_part();
  for (const bool has_first : {false, true}) {
    for (int i = 0; i < 50; ++i) {
      grpc::ClientContext context;
      context.AddMetadata("authorization", red);
      context.set_deadline(std::chrono::system_clock::now() + kJoinLimit);
      control::JoinReply reply;
      const auto parts = stub->Join(&context, &reply);
      if (has_first) parts->Write(part);
      const grpc::Status late = parts->Finish();
      CHECK(late.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED);
      REQUIRE_THAT(late.error_message(), Contains("within 20 ms") && Contains("is missing"));
    }
  }
  CHECK(plane.table->views.list().empty());
}

TEST_CASE("a ticket in the metadata joins its job, a wrong one nothing") {
  SecuredControlPlane plane;
  REQUIRE(plane.tenancy->directory.create("red", {}));
  JobSpec spec;
  spec.name = "demo";
  spec.workers = 2;
  const std::uint64_t id =
      plane.table->life.create(spec, "red", server::digest_of("a secret word")).value();
  for (const std::string& wrong :
       {fmt::format("{}:another word", id), fmt::format("{}:", id + 1), std::string("0:")}) {
    const auto refused = join(plane, "nonce", wrong, job_with(3));
    REQUIRE_FALSE(refused);
    CHECK(refused.error().code() == Code::kUnauthenticated);
  }
  const auto joined = join(plane, "nonce", fmt::format("{}:a secret word", id), job_with(3));
  REQUIRE(joined);
  CHECK(joined->job_id == id);
  const auto stub = control::Rendezvous::NewStub(plane.channel());
  for (const char* const odd :
       {"Ticket", "Ticket ", "Ticket x:y", "Ticket 99999999999999999999:y"}) {
    grpc::ClientContext context;
    context.AddMetadata("authorization", odd);
    control::JoinReply reply;
    CHECK(stub->Join(&context, &reply)->Finish().error_code() == grpc::StatusCode::UNAUTHENTICATED);
  }
}

TEST_CASE("a tenant's keys are bounded together and given back with their jobs") {
  server::KeyAllowance allowance(100);
  {
    server::KeyAllowance::Share first;
    CHECK(allowance.take("red", 60, first).ok());
    CHECK(allowance.take("red", 40, first).ok());
    server::KeyAllowance::Share second;
    const Status refused = allowance.take("red", 1, second);
    CHECK(refused.code() == Code::kResourceExhausted);
    CHECK_THAT(refused.message(), Contains("tenant \"red\""));
    server::KeyAllowance::Share blue;
    CHECK(allowance.take("blue", 100, blue).ok());
    const server::KeyAllowance::Share moved = std::move(first);
    CHECK_FALSE(allowance.take("red", 1, second).ok());
  }
  server::KeyAllowance::Share again;
  CHECK(allowance.take("red", 100, again).ok());
}

TEST_CASE("an ended job of many keys takes nothing of its tenant's allowance") {
  SecuredControlPlane plane;
  const std::string token = plane.token_of("red");
  REQUIRE(join(plane, "token", token, job_with(5000)));
  REQUIRE(plane.table->life.close({"red", "demo"}).ok());
  CHECK(plane.table->views.inspect({"red", "demo"}, 0)->spec->keys.empty());
  CHECK(plane.table->views.inspect({"red", "demo"}, 0)->spec->name == "demo");
}

using ListCalls = Calls<control::Admin::Stub, control::ListJobsRequest, control::ListJobsReply>;

TEST_CASE("a tenant that floods the server is refused with figures only, and nobody else") {
  SecuredControlPlane plane;
  const std::string red = "Bearer " + plane.token_of("red");
  const std::string blue = "Bearer " + plane.token_of("blue");
  const auto admin = plane.tenancy->tokens.create(server::Role::kAdmin, {}, "", 0);
  const auto stub = control::Admin::NewStub(plane.channel());
  const auto others = control::Admin::NewStub(plane.channel());
  ListCalls flood(&control::Admin::Stub::AsyncListJobs);
  for (int i = 0; i < 1500; ++i) flood.send(*stub, {}, red);
  ListCalls calls(&control::Admin::Stub::AsyncListJobs);
  for (const std::string& caller : {blue, "Bearer " + admin->text}) {
    calls.send(*others, {}, caller);
    CHECK(calls.wait_for_one().ok());
  }
  while (flood.left() > 0) {
    const grpc::Status status = flood.wait_for_one();
    if (status.ok()) continue;
    REQUIRE(status.error_code() == grpc::StatusCode::RESOURCE_EXHAUSTED);
    const bool is_queued = status.error_message().find("32 calls of tenant \"red\"") == 0;
    const bool is_rated = status.error_message().find("may make 50 a second") != std::string::npos;
    INFO(status.error_message());
    REQUIRE((is_queued || is_rated));
  }
}

TEST_CASE("strangers who flood the server are refused, and nobody else") {
  SecuredControlPlane plane;
  const auto admin = plane.tenancy->tokens.create(server::Role::kAdmin, {}, "", 0);
  const auto others = control::Admin::NewStub(plane.channel());
  ListCalls flood(&control::Admin::Stub::AsyncListJobs);
  std::vector<std::unique_ptr<control::Admin::Stub>> stubs;
  constexpr int kOfChannel = 15;  // more would have to wait: a stranger's frames have a price
  for (int i = 0; i < 900; ++i) {
    if (i % kOfChannel == 0) stubs.push_back(control::Admin::NewStub(plane.channel()));
    flood.send(*stubs.back(), {}, i % 2 == 0 ? "" : "Bearer phub-1-wrong");
  }
  ListCalls calls(&control::Admin::Stub::AsyncListJobs);
  calls.send(*others, {}, "Bearer " + admin->text);
  CHECK(calls.wait_for_one().ok());
  while (flood.left() > 0) {
    const grpc::StatusCode code = flood.wait_for_one().error_code();
    REQUIRE((code == grpc::StatusCode::UNAUTHENTICATED ||
             code == grpc::StatusCode::RESOURCE_EXHAUSTED));
  }
}

TEST_CASE("a tenant's calls are limited by a rate, other tenants' by their own") {
  using Clock = server::TokenBucket::Clock;
  server::CallRates rates(10, 3);
  Clock::time_point now = Clock::now();
  for (int i = 0; i < 3; ++i) CHECK(rates.admit("red", now).ok());
  const Status refused = rates.admit("red", now);
  CHECK(refused.code() == Code::kResourceExhausted);
  CHECK_THAT(refused.message(),
             Contains("\"red\" has made 3 calls") && Contains("may make 10 a second"));
  CHECK(rates.admit("blue", now).ok());
  now += std::chrono::milliseconds(101);
  CHECK(rates.admit("red", now).ok());
  CHECK_FALSE(rates.admit("red", now).ok());
}

TEST_CASE("names that nobody can have are refused before they are looked up, and not repeated") {
  SecuredControlPlane plane;
  const std::string red = "Bearer " + plane.token_of("red");
  const auto stub = control::Admin::NewStub(plane.channel());
  for (const std::string& odd :
       {std::string(60'000, 'x'), std::string("a\033[2Jb"), std::string("a\nb")}) {
    for (const bool is_tenant : {false, true}) {
      grpc::ClientContext context;
      context.AddMetadata("authorization", red);
      control::InspectJobRequest request;
      (is_tenant ? *request.mutable_tenant() : *request.mutable_name()) = odd;
      control::InspectJobReply reply;
      const grpc::Status refused = stub->InspectJob(&context, request, &reply);
      CHECK(refused.error_code() == grpc::StatusCode::INVALID_ARGUMENT);
      CHECK_THAT(refused.error_message(), Catch::StartsWith(is_tenant ? "tenant: " : "name: "));
      CHECK(refused.error_message().size() < 200);
      CHECK(refused.error_message().find('\033') == std::string::npos);
    }
  }
}

TEST_CASE("a request that is compressed is refused, so that none is larger than what was sent") {
  SecuredControlPlane plane;
  const std::string red = "Bearer " + plane.token_of("red");
  const auto stub = control::Admin::NewStub(plane.channel());
  control::ListJobsRequest request;
  request.set_tenant(std::string(1000, 'x'));
  for (const auto algorithm : {GRPC_COMPRESS_NONE, GRPC_COMPRESS_DEFLATE, GRPC_COMPRESS_GZIP}) {
    grpc::ClientContext context;
    context.AddMetadata("authorization", red);
    context.set_compression_algorithm(algorithm);
    control::ListJobsReply reply;
    const bool is_plain = algorithm == GRPC_COMPRESS_NONE;
    CHECK(stub->ListJobs(&context, request, &reply).error_code() ==
          (is_plain ? grpc::StatusCode::OK : grpc::StatusCode::UNIMPLEMENTED));
  }
}

TEST_CASE("a reply's message is cut and made visible") {
  const grpc::Status status = to_grpc({Code::kNotFound, "\033[2J\xFF" + std::string(50'000, 'x')});
  CHECK_THAT(status.error_message(), Catch::StartsWith("?[2J?xxx") && Catch::EndsWith("..."));
  CHECK(status.error_message().size() == 2003);
}

}  // namespace
}  // namespace phub::testing
