// A call at one server, from its begin to its outcome. It is made again while the server says that
// this may help. It takes no thread, so calls at many servers are under way at once.
//
// Belongs to one thread. gRPC's threads make the call meanwhile.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>

#include "common/base/status.h"
#include "common/rendezvous/server_calls.h"

namespace grpc {
class Alarm;
}

namespace phub::client {

class PendingCall {
 public:
  // Begins the call. `stop` ends it with kAborted. REQUIRES: `calls` outlives it.
  PendingCall(ServerCalls& calls, std::chrono::milliseconds timeout, CallMessages messages,
              const std::stop_token& stop = {});
  // Gives the call up, and waits until gRPC's threads have left it: not for a reply.
  ~PendingCall();
  PendingCall(const PendingCall&) = delete;
  PendingCall& operator=(const PendingCall&) = delete;

  // Within the timeout.
  Status wait();
  bool is_over() const;
  // The peer that answered, as gRPC writes it. REQUIRES: wait has returned.
  const std::string& peer() const { return peer_; }

 private:
  using Clock = std::chrono::system_clock;

  void begin();  // REQUIRES: the mutex
  void give_up();
  // By gRPC's threads.
  void on_outcome(const CallOutcome& outcome);
  void on_pause_over();

  ServerCalls& calls_;
  const std::chrono::milliseconds timeout_;
  const Clock::time_point deadline_;
  const CallMessages messages_;

  mutable std::mutex mutex_;  // of all below
  std::condition_variable done_;
  std::function<void()> cancel_;        // the call that is under way
  std::unique_ptr<grpc::Alarm> alarm_;  // the pause before the next one
  std::optional<Clock::time_point> given_up_;
  std::optional<grpc::Status> status_;  // of the last one
  std::string peer_;                    // of the same
  std::optional<std::stop_callback<std::function<void()>>> on_stop_;
};

}  // namespace phub::client
