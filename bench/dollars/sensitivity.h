// What a price or a figure that is off would do to the comparison.
//
// Values and pure functions; any thread.
#pragma once

#include <string>
#include <vector>

#include "bench/dollars/comparison.h"

namespace phub::bench {

// The ratio of one deployment to the first, with one quantity lower and higher than it is.
struct Sensitivity {
  std::string axis;  // as in curve.h: "price:gpu", "gpu-speed", ...
  std::string deployment;
  double low = 0.0;
  double high = 0.0;
  Basis basis = Basis::kPredicted;  // of the deployment's own throughput
};

// Each part's price and power's, each divided and multiplied by 1 + share, one at a time. Speed of
// the GPUs and size of the model too, where no throughput was measured; it would not follow them.
// Of the priced deployments; the widest first, what has no effect left out.
Result<std::vector<Sensitivity>> sensitivities(const PriceFile& prices, double share);

}  // namespace phub::bench
