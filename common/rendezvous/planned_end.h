// What a member knows of its job's planned end, and what it tells the servers of it.
//
// A planned end begins with a signal to a worker, or with a server that stops. All members hear the
// reason by their heartbeats' replies. Worker 0 then proposes the last step at the first server,
// which tells all members. Each member says that it knows the step, and worker 0 waits for that.
// Rendezvous fills heartbeats from a PlannedEnd and reads their replies into it. Any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>

namespace phub::client {

class PlannedEnd {
 public:
  struct Said {
    std::string wanted;           // why this member wants the end; empty: it does not
    std::uint64_t last_step = 0;  // that worker 0 proposes; 0: none
    std::uint64_t known = 0;      // the last step, once this member knows it; 0: it does not
  };
  struct Heard {
    std::string reason;
    std::uint64_t last_step = 0;
    bool all_know = false;
  };

  // `on_news` is called without the mutex, for each reply that says something new. A member with
  // `on_news` calls know() itself; any other knows a step as soon as it hears of it.
  explicit PlannedEnd(std::function<void(const Heard&)> on_news = {})
      : on_news_(std::move(on_news)) {}

  void want(const std::string& reason);
  void propose(std::uint64_t last_step);
  void know(std::uint64_t last_step);

  // For the next heartbeat at the first server.
  Said said() const;
  // Takes a heartbeat's reply from the first server, or from another one at `address`. If another
  // one announces an end, this member asks the first server for it.
  void hear(const Heard& heard, bool from_first, std::string_view address);

  std::string reason() const;       // why the job is to end; empty: it is not, as far as known
  std::uint64_t last_step() const;  // 0: not agreed
  bool all_know() const;

 private:
  const std::function<void(const Heard&)> on_news_;
  mutable std::mutex mutex_;  // of all below
  Said said_;
  Heard heard_;
};

}  // namespace phub::client
