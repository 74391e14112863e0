// Jobs of a core that have updates due: their sums wait (deferred_updates.h). Updates
// are made a few in each round of the core, so that replies and other jobs do not wait for a whole
// model. Belongs to the core's thread; allocates when it is made.
#pragma once

#include <vector>

#include "server/core/replies.h"

namespace phub::server {

class DueUpdates {
 public:
  // At most so many jobs at a time.
  DueUpdates(std::size_t jobs, Turns& turns, Replies& replies) : turns_(turns), replies_(replies) {
    jobs_.reserve(jobs);
  }

  bool empty() const { return jobs_.empty(); }
  // The job has some, now.
  void add(JobOnCore& job);
  // Updates of each job that has some, for a turn's time; while others want the core, only of those
  // whose turn can pay for it.
  // True: some are left that could be made now.
  bool run();
  void forget(JobOnCore& job) { std::erase(jobs_, &job); }

 private:
  void run(JobOnCore& job);

  Turns& turns_;
  Replies& replies_;
  std::vector<JobOnCore*> jobs_;
};

}  // namespace phub::server
