#include "bench/base/statistics.h"

#include <algorithm>
#include <cmath>

namespace phub::bench {

double percentile(std::vector<double> values, double share) {
  if (values.empty()) return 0.0;
  std::sort(values.begin(), values.end());
  const double rank = std::ceil(share * static_cast<double>(values.size()));
  const auto index = static_cast<std::size_t>(std::max(rank, 1.0)) - 1;
  return values[std::min(index, values.size() - 1)];
}

double median(const std::vector<double>& values) {
  constexpr double kHalf = 0.5;
  if (values.size() % 2 == 1 || values.empty()) return percentile(values, kHalf);
  std::vector<double> sorted = values;
  std::sort(sorted.begin(), sorted.end());
  const std::size_t upper = sorted.size() / 2;
  return (sorted[upper - 1] + sorted[upper]) / 2;
}

Spread spread_of(const std::vector<double>& values) {
  if (values.empty()) return {};
  const auto [least, most] = std::minmax_element(values.begin(), values.end());
  return {median(values), *least, *most};
}

std::vector<double> all_values(const Blocks& blocks) {
  std::vector<double> values;
  for (const auto& block : blocks) values.insert(values.end(), block.begin(), block.end());
  return values;
}

Spread ratio(const Blocks& numerator, const Blocks& denominator) {
  std::vector<double> ratios;
  for (std::size_t i = 0; i < std::min(numerator.size(), denominator.size()); ++i) {
    const double below = median(denominator[i]);
    if (below > 0) ratios.push_back(median(numerator[i]) / below);
  }
  return spread_of(ratios);
}

}  // namespace phub::bench
