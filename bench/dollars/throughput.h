// How fast a deployment trains, by the cost model.
//
// Values and pure functions; any thread.
#pragma once

#include <string>

#include "proto/prices.pb.h"

namespace phub::bench {

struct Prediction {
  double compute_seconds = 0.0;     // of an iteration
  double exchange_seconds = 0.0;    // the same, at least
  double seconds = 0.0;             // both, with what overlaps
  double samples_per_second = 0.0;  // of all workers
  std::string bound;  // "compute", "worker NIC", "server NIC", "server host", "uplink"
};

// The time of an exchange is that of its busiest link without latency, by the formulas of
// bench/simulate/shapes.h (its README has them as a table): colocated, ring, and for a PBox the
// hierarchical shape, in which a server's NIC carries workers' and racks' sums. A lower bound.
// An iteration takes compute + exchange - overlap * min(compute, exchange).
// REQUIRES: a checked file with a workload, a priced deployment of it.
Prediction predict(const PriceFile& prices, const Deployment& deployment);

// The same with an exchange whose time is known; `bound` is "compute" or "exchange".
Prediction predict_with(const PriceFile& prices, const Deployment& deployment,
                        double exchange_seconds);

}  // namespace phub::bench
