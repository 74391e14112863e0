// With which hyper-parameters rounds begin that need not have the leader's push.
//
// Data of QuorumRounds; its core's thread only. Nothing grows after it is made.
#pragma once

#include <cstdint>
#include <vector>

#include "common/base/rule.h"
#include "server/chunks/rounds/worker_sets.h"

namespace phub::server {

class RoundHypers {
 public:
  // `of_job`: of rounds before anybody has said any.
  RoundHypers(std::uint32_t workers, std::size_t chunks, const Hyper& of_job)
      : heard_(1, workers), said_(chunks, Said{.hyper = of_job}) {}

  // Those of rounds before anybody has said any are these instead. Before the first push.
  void reset(const Hyper& of_job) { said_.assign(said_.size(), Said{.hyper = of_job}); }

  // The worker sent some: what it pushes has its own, and not the job's.
  void heard_from(std::uint32_t worker) { heard_.insert(0, worker); }

  // The leader brings the chunk's initial values with these.
  void begin(std::uint32_t slot, std::uint32_t leader, const Hyper& hyper) {
    said_[slot] = {.hyper = hyper, .by_leader = heard_.contains(0, leader)};
  }

  // A worker pushes the chunk with these. The leader's hold, also where it has said none and has
  // the job's. Until a leader has said or pushed any, those of others who have are nearer than the
  // job's: a schedule may begin far below these.
  void push(std::uint32_t slot, std::uint32_t worker, const Hyper& hyper, bool leads) {
    Said& said = said_[slot];
    const bool has_said = heard_.contains(0, worker);
    const bool holds = has_said ? leads || !said.by_leader : leads && !said.by_leader;
    if (holds) said = {hyper, leads};
  }

  // Of the chunk's next round.
  const Hyper& of(std::uint32_t slot) const { return said_[slot].hyper; }

 private:
  struct Said {
    Hyper hyper;
    bool by_leader = false;  // who is the leader; others' hold until then
  };

  WorkerSets heard_;  // one set
  std::vector<Said> said_;
};

}  // namespace phub::server
