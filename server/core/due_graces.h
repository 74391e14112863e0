// Jobs of a core with rounds of chunks that end at some time, whoever comes: their quorum is there
// and they are in grace, or it is not and somebody waits for it. Belongs to the core's thread;
// allocates when it is made.
#pragma once

#include <chrono>
#include <vector>

#include "server/core/replies.h"

namespace phub::server {

class DueGraces {
 public:
  // At most so many jobs at a time.
  DueGraces(std::size_t jobs, Turns& turns, Replies& replies) : turns_(turns), replies_(replies) {
    jobs_.reserve(jobs);
  }

  bool empty() const { return jobs_.empty(); }
  // The chunk's round has its first push; its quorum.
  void await_quorum(JobOnCore& job, std::uint32_t slot);
  void begin_grace(JobOnCore& job, std::uint32_t slot);
  // It has rounds that time ends, or that are due.
  void add(JobOnCore& job);
  // Completes rounds whose time is over, for a turn's time of each job. True: there were some.
  bool run();
  // Until the first is over, but not longer than `longest`; more than nothing.
  std::chrono::milliseconds rest(std::chrono::milliseconds longest) const;
  void forget(JobOnCore& job) { std::erase(jobs_, &job); }

 private:
  bool run(JobOnCore& job);
  std::uint64_t in(std::uint32_t ms) const;  // ticks

  Turns& turns_;
  Replies& replies_;
  std::vector<JobOnCore*> jobs_;
};

}  // namespace phub::server
