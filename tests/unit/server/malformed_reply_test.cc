// A program at a server's address may answer anything. A malformed reply is an error of the call,
// never the end of the process.
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <memory>
#include <string>
#include <utility>

#include "common/rendezvous/rendezvous.h"
#include "proto/control.pb.h"

namespace phub::testing {
namespace {

using Catch::Matchers::Contains;

constexpr std::chrono::minutes kGuard{2};

// Answers every call with the same bytes, and success.
class Babbler final : public grpc::CallbackGenericService {
 public:
  explicit Babbler(const std::string& reply) {
    const grpc::Slice slice(reply);
    reply_ = grpc::ByteBuffer(&slice, 1);
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    builder.RegisterCallbackGenericService(this);
    server_ = builder.BuildAndStart();
    address = "127.0.0.1:" + std::to_string(port);
  }

  grpc::ServerGenericBidiReactor* CreateReactor(grpc::GenericCallbackServerContext*) override {
    return new Answer(reply_);
  }

  std::string address;

 private:
  class Answer final : public grpc::ServerGenericBidiReactor {
   public:
    explicit Answer(const grpc::ByteBuffer& reply) : reply_(reply) { StartRead(&request_); }
    void OnReadDone(bool ok) override {
      if (ok) return StartRead(&request_);
      StartWriteAndFinish(&reply_, {}, grpc::Status::OK);
    }
    void OnDone() override { delete this; }

   private:
    grpc::ByteBuffer reply_;
    grpc::ByteBuffer request_;
  };

  grpc::ByteBuffer reply_;
  std::unique_ptr<grpc::Server> server_;
};

std::string whole_join_reply() {
  control::JoinReply reply;
  reply.set_job_id(1);
  reply.set_secret(std::string(32, 's'));
  reply.set_cores(1);
  reply.add_core_load_bytes(0);
  reply.set_heartbeat_interval_ms(1000);
  return reply.SerializeAsString();
}

void check(const Status& status, const std::string& call) {
  CHECK(status.code() == Code::kInternal);
  CHECK_THAT(status.message(), Contains("a reply to " + call + " that cannot be read"));
}

}  // namespace

TEST_CASE("a reply that does not parse is an error that names the server and the call") {
  // Field 2 of most replies as a string that is no UTF-8; of a join's, field 7.
  const std::string bytes =
      GENERATE(std::string("\xff"), std::string("\x12\x01\xff\x3a\x01\xff", 6),
               whole_join_reply() + "\xff", std::string(70'000, '\xff'));
  const Babbler babbler(bytes);
  const auto server = std::move(*client::Rendezvous::create(babbler.address));
  const JobSpec job{.name = "demo", .workers = 1, .keys = {{"w", 10}}};
  const auto joined = server->join(job, kGuard);
  REQUIRE_FALSE(joined);
  check(joined.error(), "Join");
  CHECK_THAT(joined.error().message(), Contains(babbler.address));
  const auto as_rack = server->join_as_rack(job, {"a", "127.0.0.1:1"}, kGuard);
  REQUIRE_FALSE(as_rack);
  check(as_rack.error(), "Join");
  const auto beat = server->heartbeat(kGuard);
  REQUIRE_FALSE(beat);
  check(beat.error(), "Heartbeat");
}

TEST_CASE("a reply of bytes that no message begins with is an error of every call") {
  const Babbler babbler("\xff");
  const auto server = std::move(*client::Rendezvous::create(babbler.address));
  check(server->ready({1}, {0}, 0, 1, kGuard), "Ready");
  check(server->start(kGuard, "a test"), "Start");
  check(server->leave(kGuard), "Leave");
  const auto file = server->snapshot(1, kGuard);
  REQUIRE_FALSE(file);
  check(file.error(), "Snapshot");
}

}  // namespace phub::testing
