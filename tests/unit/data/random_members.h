// Members of a run at random, for runs that stop and go on with others.
#pragma once

#include <algorithm>
#include <numeric>
#include <random>
#include <vector>

#include "worker/data/feed/order.h"

namespace phub::data {

using Random = std::mt19937;

inline std::uint32_t between(Random& random, std::uint32_t low, std::uint32_t high) {
  return std::uniform_int_distribution<std::uint32_t>(low, high)(random);
}

// Members of a run, between two stops.
struct Members {
  std::vector<TrainingOptions> workers;
};

// As many as `images` allow, each with a batch of its own in some runs.
inline Members members(Random& random, std::uint32_t images, const RunPlace& start) {
  const std::uint32_t accumulate = between(random, 1, std::min(3U, images));
  const std::uint32_t in_batch = images / accumulate;
  const std::uint32_t workers = between(random, 1, std::min(8U, in_batch));
  const bool is_even = between(random, 0, 1) == 0;
  const std::uint32_t even = between(random, 1, in_batch / workers);
  std::uint32_t left = in_batch - workers;
  std::vector<std::uint32_t> batches(workers, even);
  for (std::uint32_t& batch : batches) {
    if (is_even) break;
    const std::uint32_t more = between(random, 0, left);
    left -= more;
    batch = 1 + more;
  }
  const std::uint32_t all = std::accumulate(batches.begin(), batches.end(), 0U);
  Members made;
  std::uint64_t first = 0;
  for (std::uint32_t i = 0; i < workers; ++i) {
    TrainingOptions options{.batch = batches[i],
                            .workers = workers,
                            .worker_index = i,
                            .seed = 11,
                            .accumulate = accumulate,
                            .start = start};
    if (!is_even) options.part = {.global = all, .first = first};
    first += batches[i];
    made.workers.push_back(options);
  }
  return made;
}

}  // namespace phub::data
