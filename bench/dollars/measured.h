// Measured throughput for a deployment: a number, or a file of JSON lines that we wrote.
//
// Main thread.
#pragma once

#include <string>

#include "common/base/status.h"
#include "proto/prices.pb.h"

namespace phub::bench {

// `words` is DEPLOYMENT=NUMBER, samples a second of all workers, or DEPLOYMENT=FILE with either
//   - one line of `phub-bench exchange --json`: its seconds_p50 is the deployment's exchange;
//   workers
//     and bytes must be the deployment's and the workload's;
//   - lines of a training's metrics: the median of images_per_second of its epochs.
// Replaces what the file of prices says. Errors name what does not fit.
Status set_measured(const std::string& words, PriceFile& prices);

}  // namespace phub::bench
