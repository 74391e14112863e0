// How throughput for a dollar follows one quantity, and where two deployments break even.
//
// Values and pure functions; any thread.
#pragma once

#include <string>
#include <vector>

#include "bench/dollars/comparison.h"

namespace phub::bench {

// "gpu-speed" (factor), "model-size" (factor), "oversubscription" (of those with a core),
// "server-nics" (of those with servers), "workers" (in a rack), or "price:PART" (factor; of all
// parts and power together: "price:" with "power").
struct CurveRange {
  std::string axis;
  double from = 0.0;  // both 0: the axis' own range
  double to = 0.0;
  // Spaced evenly in the logarithm, whole numbers where the axis counts. Break-evens come on top.
  unsigned points = 33;
};

struct CurvePoint {
  double value = 0.0;
  std::vector<PricedRow> rows;  // of the priced deployments, in the file's order
};

// Where a deployment becomes better or worse than the first one.
struct BreakEven {
  std::string deployment;
  Basis basis = Basis::kPredicted;  // of its throughput
  double value = 0.0;               // on an axis that counts: the first number on the other side
  bool is_better_above = false;
};

struct Curve {
  std::string axis;
  bool is_counted = false;
  bool is_of_model = false;  // the axis changes throughput, so all of it is predicted
  std::vector<CurvePoint> points;
  std::vector<BreakEven> break_evens;
};

// What is published stays out. On an axis that changes throughput, what was measured holds for one
// point only, so all points are predicted; the time of a measured exchange holds on "gpu-speed".
// Errors (kInvalidArgument): an axis that is not known or changes nothing; a range that is none.
Result<Curve> curve_of(const PriceFile& prices, const CurveRange& range);

// `prices` with a quantity changed; the same errors.
Result<PriceFile> changed(const PriceFile& prices, const std::string& axis, double value);

}  // namespace phub::bench
