// How fast a deployment trains, by the cost model.
//
// Values and pure functions; any thread.
#pragma once

#include <string_view>

#include "proto/prices.pb.h"

namespace phub::bench {

struct Prediction {
  double compute_seconds = 0.0;     // of an iteration
  double exchange_seconds = 0.0;    // the same, at least
  double seconds = 0.0;             // both, with what overlaps
  double samples_per_second = 0.0;  // of all workers
  std::string_view bound;  // "compute", "worker NICs", "server NICs", "server host", "uplinks"
};

// Lower bounds of the time of an exchange, M bytes of model, N workers a rack, r racks, n = N r;
// the rates, full duplex: Bw of a worker's NICs, Bp of a rack's servers, Bc of a rack's uplinks.
//   colocated  max(2 M (n-1)/n / Bw, 2 N M (r-1)/(r Bc))
//   ring       2 M (n-1)/n / min(Bw, Bc), in the order of the racks
//   PBox       max(M/Bw, N M/Bp, 2 M (r-1)/(r min(Bc, Bp))), each chunk rooted at one rack
// Source: the PHub paper (arXiv 1805.07891) for shapes in a rack, and each link's bytes counted.
// An iteration takes compute + exchange - overlap * min(compute, exchange).
// REQUIRES: a checked file with a workload, a priced deployment of it.
Prediction predict(const PriceFile& prices, const Deployment& deployment);

// The same with an exchange whose time is known; `bound` is "compute" or "exchange".
Prediction predict_with(const PriceFile& prices, const Deployment& deployment,
                        double exchange_seconds);

}  // namespace phub::bench
