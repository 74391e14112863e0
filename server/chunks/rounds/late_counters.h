// How old the parameters were that pushes of a job with a quorum were computed from, and what was
// too late. One writer, the core's thread; any thread may read.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>

#include "common/base/counter.h"
#include "server/job/counters.h"

namespace phub::server {

struct LateCounters {
  std::array<Counter, kStalenessBuckets> pushes;  // by bucket of their staleness
  Counter dropped;                                // of them, for they were late
  Counter withheld;                               // replies that waited for the slowest worker

  static std::size_t bucket(std::uint32_t staleness) {
    return std::min<std::size_t>(std::bit_width(staleness), kStalenessBuckets - 1);
  }
};

// Of the whole job on a core.
struct RoundCounters {
  Counter rounds;      // of chunks, that were complete
  Counter incomplete;  // of them, those that went on without somebody's push
  Counter graces;      // of them, those whose grace was over
  Counter impatient;   // of them, those that had not their quorum when their patience was over
};

}  // namespace phub::server
