// Order statistics of measured seconds. Pure functions; any thread.
#pragma once

#include <vector>

namespace phub::bench {

inline constexpr double kTail = 0.99;  // the percentile that reports show
inline constexpr double kGiga = 1e9;   // bytes a second in gigabytes

// The smallest value that at least `share` (0 to 1) of the values do not exceed; 0 if empty.
double percentile(std::vector<double> values, double share);
double median(const std::vector<double>& values);

struct Spread {
  double median = 0.0;
  double min = 0.0;
  double max = 0.0;
};
Spread spread_of(const std::vector<double>& values);

using Blocks = std::vector<std::vector<double>>;

std::vector<double> all_values(const Blocks& blocks);
// Of each block's median in `numerator` over the same block's in `denominator`: what remains of a
// comparison on a machine whose speed drifts.
Spread ratio(const Blocks& numerator, const Blocks& denominator);

}  // namespace phub::bench
