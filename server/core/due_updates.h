// Jobs of a core that have updates due: those that hold their sums (deferred_updates.h). Updates
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
    shards_.reserve(jobs);
  }

  bool empty() const { return shards_.empty(); }
  // The job has some, now.
  void add(Shard& shard);
  // Updates of each job that has some, for a turn's time; while others want the core, only of those
  // whose turn can pay for it.
  void run();
  void forget(Shard& shard) { std::erase(shards_, &shard); }

 private:
  void run(Shard& shard);

  Turns& turns_;
  Replies& replies_;
  std::vector<Shard*> shards_;
};

}  // namespace phub::server
