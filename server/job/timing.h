// Where the time of a job's round goes, from the logs of its cores.
//
// Pure functions; any thread. Times in nanoseconds since the data plane's start.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "server/job/round_log.h"

namespace phub::server {

// The last rounds of a job on one core, the oldest first.
struct CoreRounds {
  std::uint32_t core = 0;
  std::vector<RoundRecord> records;
};

struct WorkerTiming {
  double last_share = 0;    // of the rounds: the share in which it was the last to push all
  double late_seconds = 0;  // mean: how long after the median worker it had pushed all
};

// Another rack's sums, and its replies to this one's, as they come here.
struct RackTiming {
  bool brings = false;      // any
  double last_share = 0;    // of the rounds: the share in which it was the last rack to bring all
  double late_seconds = 0;  // mean: from this rack's last push until it brings the first
  double arrival_seconds = 0;  // mean: from its first to its last
};

// Means over `rounds`. The six parts add up to round_seconds; a part whose end comes before its
// start (keys are pipelined over the end of a round) counts as nothing.
struct JobTiming {
  std::uint32_t rounds = 0;
  double round_seconds = 0;      // from a first push to the next round's
  double push_seconds = 0;       // until the median worker has pushed all
  double wait_seconds = 0;       // until the slowest has
  double racks_seconds = 0;      // until other racks have brought all; what is before it is no part
  double aggregate_seconds = 0;  // until the last chunk is complete
  double reply_seconds = 0;      // until the last reply is sent
  double compute_seconds = 0;    // until the next round's first push
  double core_seconds = 0;       // work of all cores
  std::vector<WorkerTiming> workers;   // of this rack, by seat
  std::vector<RackTiming> racks = {};  // of the job, the own one's is empty; none: one rack
};

// Nothing: fewer than two rounds that all the cores remember.
std::optional<JobTiming> timing_of(const std::vector<CoreRounds>& cores);

}  // namespace phub::server
