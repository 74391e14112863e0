// Bars that lie under each other, each with its label above it.
//
// Pure functions; any thread.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "bench/plots/svg.h"

namespace phub::bench::plots {

struct ValueRange {
  double low = 0.0;
  double high = 0.0;
};

struct ValueBar {
  std::string label;
  double value = 0.0;
  std::string figure;               // the value as it is written at the bar's end
  std::optional<ValueRange> range;  // of what `value` is the median
  std::optional<double> limit;      // what the value may be at most, or should be at least
};

// All bars on one scale that has 0 on it; values may be negative. REQUIRES: finite numbers.
Drawing draw_bars(const std::vector<ValueBar>& bars, double width);

}  // namespace phub::bench::plots
