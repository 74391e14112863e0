// What `phub-bench dollars` says: tables for people, JSON lines and CSV for programs.
//
// Pure functions; any thread.
#pragma once

#include <string>
#include <vector>

#include "bench/dollars/comparison.h"
#include "bench/dollars/curve.h"
#include "bench/dollars/sensitivity.h"

namespace phub::bench {

struct DollarsResult {
  PriceFile prices;
  std::vector<PricedRow> rows;
  std::vector<Curve> curves;
  std::vector<Sensitivity> sensitivities;
  double share = 0.0;  // of the sensitivities
};

std::string text_of(const DollarsResult& result);
// One object a line; `what` is deployment, curve, break_even or sensitivity.
std::string json_of(const DollarsResult& result);
// The deployments' rows, or the curves' points if there are curves.
std::string csv_of(const DollarsResult& result);

// What an axis is called: "GPU speed, times", "price of nic, times".
std::string title_of(const std::string& axis);
std::string figure(double value);  // four significant digits: "60.42", "1,234"

}  // namespace phub::bench
