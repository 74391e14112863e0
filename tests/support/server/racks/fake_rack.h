// A server of another rack, which takes every join; what it replies is up to the test.
#pragma once

#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>

#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "proto/control.grpc.pb.h"

namespace phub::testing {

// How often each rack has heard a heartbeat. Any thread.
class Heard {
 public:
  void add(const std::string& rack) {
    const std::lock_guard lock(mutex_);
    ++times_[rack];
    changed_.notify_all();
  }
  int times(const std::string& rack) {
    const std::lock_guard lock(mutex_);
    return times_[rack];
  }
  // Of this rack. False: it took longer than any machine does.
  bool wait(const std::string& rack, int times) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, kLimit, [&] { return times_[rack] >= times; });
  }
  // Of so many racks, within a call. False: who made it has given it up.
  bool wait_for_all(std::size_t racks, int times, const grpc::ServerContext& call) {
    std::unique_lock lock(mutex_);
    const auto have_all = [&] {
      std::size_t have = 0;
      for (const auto& [rack, heard] : times_) have += heard >= times ? 1 : 0;
      return have >= racks;
    };
    while (!changed_.wait_for(lock, kLook, have_all)) {
      if (call.IsCancelled()) return false;
    }
    return true;
  }

 private:
  static constexpr std::chrono::minutes kLimit{2};
  static constexpr std::chrono::milliseconds kLook{10};  // nobody tells that a call is given up
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, int> times_;
};

class FakeRack final : public control::Rendezvous::Service {
 public:
  using Context = grpc::ServerContext;

  FakeRack() {
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
    address = "127.0.0.1:" + std::to_string(port);
  }

  std::string address;
  std::uint64_t rounds_before = 0;  // set before the first call
  // Set before the first call; they may take their time.
  std::function<grpc::Status(Context&)> on_join = [](Context&) { return grpc::Status(); };
  std::function<void(control::JoinReply&)> on_joined = [](auto&) {};
  std::function<void(Context&, const control::HeartbeatRequest&, control::HeartbeatReply&)>
      on_heartbeat = [](Context&, const auto&, auto&) {};
  std::function<void(Context&)> on_ready = [](Context&) {};
  std::function<void(Context&)> on_start = [](Context&) {};
  std::function<void(Context&)> on_leave = [](Context&) {};

  grpc::Status Join(Context* context, grpc::ServerReader<control::JoinRequest>* requests,
                    control::JoinReply* reply) override {
    control::JoinRequest request;
    while (requests->Read(&request)) {
    }
    reply->set_job_id(1);
    reply->set_secret(std::string(32, 's'));
    reply->set_cores(1);
    reply->add_core_load_bytes(0);
    reply->set_tcp_port(4242);
    reply->set_heartbeat_interval_ms(10);
    on_joined(*reply);
    return on_join(*context);
  }
  grpc::Status Ready(Context* context, const control::ReadyRequest*,
                     control::ReadyReply* reply) override {
    reply->set_rounds_before(rounds_before);
    on_ready(*context);
    return {};
  }
  grpc::Status Start(Context* context, const control::StartRequest*,
                     control::StartReply* reply) override {
    reply->set_rounds_before(rounds_before);
    on_start(*context);
    return {};
  }
  grpc::Status Heartbeat(Context* context, const control::HeartbeatRequest* request,
                         control::HeartbeatReply* reply) override {
    reply->set_running(true);
    on_heartbeat(*context, *request, *reply);
    return {};
  }
  grpc::Status Leave(Context* context, const control::LeaveRequest*,
                     control::LeaveReply*) override {
    on_leave(*context);
    return {};
  }

 private:
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace phub::testing
