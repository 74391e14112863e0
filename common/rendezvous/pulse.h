// Heartbeats at one server, one after another, from the construction to the end, whatever the
// threads of its owner wait for: gRPC's threads make them.
//
// At most one is under way. So a reply that takes long delays the next heartbeat there, and none
// elsewhere; while it takes less than the server's heartbeat deadline, the server hears enough.
// Any thread, but the destructor; never within on_end and on_beat, but stop.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>

#include "common/rendezvous/rendezvous.h"

namespace grpc {
class Alarm;
}

namespace phub::client {

struct PulseOptions {
  std::chrono::milliseconds interval;  // from the begin of one to that of the next
  std::chrono::milliseconds deadline;  // a server that replies to none for so long is lost
};

class Pulse {
 public:
  using Clock = std::chrono::steady_clock;
  // A beat that is not running, or why the last heartbeat before the deadline failed.
  using OnEnd = std::function<void(const Result<Beat>& last)>;
  using OnBeat = std::function<void(const Beat& beat)>;

  // Begins with a heartbeat. A thread of gRPC's calls `on_beat` with each reply, and `on_end` at
  // most once, after which there are no heartbeats. Neither may hold that thread up.
  // REQUIRES: `server`, which outlives it, has joined.
  Pulse(Rendezvous& server, PulseOptions options, OnEnd on_end, OnBeat on_beat = {});
  // Cancels, and waits until gRPC's threads have left it: not for a reply.
  ~Pulse();
  Pulse(const Pulse&) = delete;
  Pulse& operator=(const Pulse&) = delete;

  // Cancels, without waiting: there are no heartbeats any more. Also within on_end and on_beat.
  void stop();
  // Of a rack: tells it at once, or after the reply that is due, and from then on.
  void tell_complete();

 private:
  // With the mutex; each is followed by its event, also when it is cancelled.
  void begin();
  void pause();
  // By gRPC's threads.
  void on_reply(const Result<Beat>& beat);
  void on_pause_over();

  Rendezvous& server_;
  const PulseOptions options_;
  const OnEnd on_end_;
  const OnBeat on_beat_;  // may be empty

  mutable std::mutex mutex_;  // of all below
  std::condition_variable idle_;
  bool is_over_ = false;
  bool is_idle_ = false;          // no event follows
  std::function<void()> cancel_;  // the heartbeat under way; empty: a pause is
  std::unique_ptr<grpc::Alarm> alarm_;
  bool is_complete_ = false;
  bool is_told_ = false;          // so, or about to be
  Clock::time_point began_;       // the last heartbeat
  Clock::time_point unanswered_;  // the first one since the last reply
  Clock::time_point answered_;
};

}  // namespace phub::client
