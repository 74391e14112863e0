// Keeps a worker's membership alive at every server, and learns why a job has ended.
//
// A pulse for each server beats at that server's interval, so a server that replies late delays no
// heartbeat elsewhere. Any thread may ask for the failure or a diagnosis.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <set>
#include <vector>

#include "common/base/status.h"
#include "common/rendezvous/membership.h"

namespace phub::client {

class Pulse;

class Heartbeats {
 public:
  // A server that does not reply for `deadline` is lost.
  Heartbeats(Membership& membership, std::chrono::milliseconds deadline);
  ~Heartbeats();
  Heartbeats(const Heartbeats&) = delete;
  Heartbeats& operator=(const Heartbeats&) = delete;

  bool failed() const { return failed_.load(std::memory_order_acquire); }
  Status failure() const;

  // A worker has left the job; rounds without it cannot complete. leavers() says who, as an error.
  bool someone_left() const { return someone_left_.load(std::memory_order_acquire); }
  // Whether a worker with an index in [first, end) has.
  bool has_left(std::uint32_t first, std::uint32_t end) const;
  Status leavers() const;
  // Workers that the job goes on without, as a server has said; in order.
  std::vector<std::uint32_t> lost() const;

  // Asks the server now. Error: the job is over, and why; OK also where there is no reply.
  Status check(std::uint32_t server);

  // A data connection to a server was lost: asks the server why, and returns the reason. What
  // another server said before, that a worker was lost, may have come of this one's end, which is
  // told then.
  Status diagnose(std::uint32_t server, std::uint32_t core);

 private:
  // What a server says of the job; OK if it is running.
  Status ask(std::size_t server, std::chrono::milliseconds timeout);
  void note(const Beat& beat);
  void on_end(std::size_t server, const Result<Beat>& last);
  // The first failure counts, and ends all pulses.
  void fail(const Status& status, std::size_t server);

  Membership& membership_;
  const std::chrono::milliseconds deadline_;
  std::atomic<bool> failed_{false};
  std::atomic<bool> someone_left_{false};
  std::mutex ask_mutex_;      // one question at a time for each process
  mutable std::mutex mutex_;  // of all below
  Status failure_;
  std::size_t failed_by_ = 0;  // the server that said it, or did not reply
  std::vector<std::uint32_t> left_;
  std::set<std::uint32_t> lost_;
  std::vector<std::unique_ptr<Pulse>> pulses_;  // by server
};

}  // namespace phub::client
