#include "bench/plots/bars.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace phub::bench::plots {
namespace {

constexpr double kBarLine = 42.0;
constexpr double kBarHeight = 16.0;
constexpr double kBarTop = 18.0;
constexpr double kGap = 6.0;  // between a bar and its figure

struct BarScale {
  double low = 0.0;
  double high = 0.0;
  double room = 0.0;

  double x(double value) const {
    return high > low ? room * (value / (high - low) - low / (high - low)) : 0.0;
  }
};

BarScale scale_of(const std::vector<ValueBar>& bars, double width) {
  BarScale scale;
  double figures = 0.0;
  const auto reach = [&](double value) {
    scale.low = std::min(scale.low, value);
    scale.high = std::max(scale.high, value);
  };
  for (const ValueBar& bar : bars) {
    reach(bar.value);
    if (bar.range) reach(bar.range->low), reach(bar.range->high);
    if (bar.limit) reach(*bar.limit);
    figures = std::max(figures, width_of(bar.figure));
  }
  scale.room = std::max(width - figures - 2 * kGap, width / 3);
  return scale;
}

// From the least to the most, with an end at each.
std::string range_svg(const ValueRange& range, const BarScale& scale, double middle) {
  const double low = scale.x(range.low);
  const double high = scale.x(range.high);
  return rule_at(low, middle, high, middle, "range") +
         rule_at(low, middle - 4, low, middle + 4, "range") +
         rule_at(high, middle - 4, high, middle + 4, "range");
}

}  // namespace

Drawing draw_bars(const std::vector<ValueBar>& bars, double width) {
  const BarScale scale = scale_of(bars, width);
  const double zero = scale.x(0.0);
  Drawing drawing;
  drawing.height = kBarLine * static_cast<double>(bars.size());
  for (std::size_t i = 0; i < bars.size(); ++i) {
    const ValueBar& bar = bars[i];
    const double y = kBarLine * static_cast<double>(i) + kBarTop;
    const double end = scale.x(bar.value);
    double reach = std::max(zero, end);
    drawing.elements += "<g><title>" + escaped(bar.label) + "</title>\n";
    drawing.elements += words_at(0, y - 5, "start", fitted(bar.label, width));
    drawing.elements += fmt::format(
        "<rect class=\"bar\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{}\"/>\n",
        std::min(zero, end), y, std::abs(end - zero), kBarHeight);
    if (scale.low < 0.0) {
      drawing.elements += rule_at(zero, y - 2, zero, y + kBarHeight + 2, "axis");
    }
    if (bar.range) {
      drawing.elements += range_svg(*bar.range, scale, y + kBarHeight / 2);
      reach = std::max(reach, scale.x(bar.range->high));
    }
    if (bar.limit) {
      const double x = scale.x(*bar.limit);
      drawing.elements += rule_at(x, y - 2, x, y + kBarHeight + 2, "limit");
      if (x >= reach) reach = x;
    }
    drawing.elements += words_at(reach + kGap, y + 13, "start", bar.figure) + "</g>\n";
  }
  return drawing;
}

}  // namespace phub::bench::plots
