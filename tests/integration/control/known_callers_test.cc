// Whose connections of the control port are whose, over real gRPC.
#include <sys/resource.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/rendezvous/rendezvous.h"
#include "proto/control.grpc.pb.h"
#include "server/process/descriptor_limit.h"
#include "tests/support/server/control_plane.h"

namespace phub::testing {
namespace {

// While it lives the process may open so few files, of which doors have shares.
class FewDescriptors {
 public:
  FewDescriptors() {
    ::getrlimit(RLIMIT_NOFILE, &before_);
    const rlimit few{.rlim_cur = 256, .rlim_max = before_.rlim_max};
    REQUIRE(::setrlimit(RLIMIT_NOFILE, &few) == 0);
  }
  ~FewDescriptors() { ::setrlimit(RLIMIT_NOFILE, &before_); }
  FewDescriptors(const FewDescriptors&) = delete;
  FewDescriptors& operator=(const FewDescriptors&) = delete;

 private:
  rlimit before_{};
};

std::shared_ptr<grpc::Channel> listed(const SecuredControlPlane& plane, const std::string& token) {
  auto channel = plane.channel();
  const auto stub = control::Admin::NewStub(channel);
  grpc::ClientContext context;
  context.AddMetadata("authorization", "Bearer " + token);
  control::ListJobsReply reply;
  REQUIRE(stub->ListJobs(&context, {}, &reply).ok());
  return channel;
}

std::shared_ptr<grpc::Channel> beaten(const SecuredControlPlane& plane,
                                      const client::JoinInfo& member) {
  auto channel = plane.channel();
  const auto stub = control::Rendezvous::NewStub(channel);
  control::HeartbeatRequest request;
  request.set_job_id(member.job_id);
  request.set_epoch(member.epoch);
  request.set_worker_index(member.worker_index);
  request.set_secret(member.secret.data(), member.secret.size());
  grpc::ClientContext context;
  control::HeartbeatReply reply;
  REQUIRE(stub->Heartbeat(&context, request, &reply).ok());
  return channel;
}

bool closes_within(grpc::Channel& channel, std::chrono::seconds time) {
  return channel.WaitForStateChange(GRPC_CHANNEL_READY, std::chrono::system_clock::now() + time);
}

}  // namespace

TEST_CASE("a tenant's known connections are its tokens' and its workers', and of others none") {
  std::optional<FewDescriptors> few(std::in_place);
  SecuredControlPlane plane;
  const std::size_t share = server::descriptor_shares().control_known / 2;
  few.reset();
  const std::string red = plane.token_of("red");
  const auto other = listed(plane, plane.token_of("blue"));
  plane.folder.write("token", red + "\n");
  ClientSecurity security;
  security.token_file = plane.folder.path / "token";
  const JobSpec job{.name = "demo", .keys = {{.name = "a", .elements = 1}}};
  const auto member = client::Rendezvous::create(plane.service->address(), security)
                          .value()
                          ->join(job, std::chrono::minutes(1));
  REQUIRE(member);
  std::vector<std::shared_ptr<grpc::Channel>> channels;
  // One less than the share, and more than the share with those of its worker.
  for (std::size_t i = 0; i + 1 < share; ++i) channels.push_back(listed(plane, red));
  for (int i = 0; i < 3; ++i) channels.push_back(beaten(plane, *member));
  CHECK(closes_within(*channels.front(), std::chrono::minutes(1)));
  CHECK_FALSE(closes_within(*channels.back(), std::chrono::seconds(0)));
  CHECK_FALSE(closes_within(*other, std::chrono::seconds(0)));
}

}  // namespace phub::testing
