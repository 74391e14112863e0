// Jobs of a core with work that no push starts: updates that were deferred (deferred_updates.h),
// sums of a rack that waited for its votes, and rounds that end by time or by a loss.
//
// A job gets a turn's time of it in each round of the core, so that replies and other jobs do not
// wait for a whole model. Belongs to the core's thread; allocates when it is made.
#pragma once

#include <chrono>
#include <vector>

#include "server/core/replies.h"

namespace phub::server {

class DueWork {
 public:
  // At most `jobs` at a time.
  DueWork(std::size_t jobs, Turns& turns, Replies& replies) : turns_(turns), replies_(replies) {
    jobs_.reserve(jobs);
  }

  bool empty() const { return jobs_.empty(); }
  // The job has updates due, or rounds that end without a push.
  void add(JobOnCore& job);
  // Starts the round timeout: the chunk's round has its first push.
  void await_quorum(JobOnCore& job, std::uint32_t slot);
  // Starts the grace: the chunk's round has its quorum.
  void begin_grace(JobOnCore& job, std::uint32_t slot);
  // An exchange of racks that do not wait for each other goes on: sends what follows, and starts
  // the time in which others may come.
  void follow_exchange(JobOnCore& job, std::uint32_t slot);
  // A turn's time of each job; while others want the core, updates only of those whose turn can pay
  // for them. True: something was done, or is left that could be done now.
  bool run();
  // Until the first round ends by time, but not longer than `longest`; more than nothing.
  std::chrono::milliseconds rest(std::chrono::milliseconds longest) const;
  void forget(JobOnCore& job) { std::erase(jobs_, &job); }

 private:
  bool update(JobOnCore& job);
  bool send_held(JobOnCore& job);
  bool end_rounds(JobOnCore& job);
  bool end_waits(JobOnCore& job);
  void send_outcome(JobOnCore& job, std::uint32_t slot);
  // Tells whom it concerns what became of a chunk: its sum goes up, or its round is over.
  void on_ended(JobOnCore& job, std::uint32_t slot, PushResult result);
  void complete(JobOnCore& job, std::uint32_t slot);
  void charge(JobOnCore& job, std::uint64_t spent);
  std::uint64_t in(std::uint32_t ms) const;  // ticks

  Turns& turns_;
  Replies& replies_;
  std::vector<JobOnCore*> jobs_;
};

}  // namespace phub::server
