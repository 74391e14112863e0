#include "bench/dollars/picture.h"

#include <fmt/format.h>

#include "bench/plots/bars.h"
#include "bench/plots/lines.h"

namespace phub::bench {
namespace {

constexpr double kWidth = 720.0;
constexpr double kMargin = 24.0;
constexpr double kTop = 64.0;  // title and what it is of
constexpr double kGap = 24.0;  // between two curves

std::string label_of(const PricedRow& row) {
  return fmt::format("{} ({})", row.deployment, name_of(row.basis));
}

plots::Drawing lines_of(const Curve& curve) {
  plots::LinePlot plot;
  plot.axis = title_of(curve.axis);
  plot.is_logarithmic = true;
  plot.is_counted = curve.is_counted;
  plot.x_figure = plot.y_figure = figure;
  for (const PricedRow& row : curve.points.front().rows) {
    plot.lines.emplace_back().name = label_of(row);
  }
  for (const CurvePoint& point : curve.points) {
    for (std::size_t i = 0; i < point.rows.size(); ++i) {
      plot.lines[i].points.push_back({point.value, point.rows[i].per_1000_dollars});
    }
  }
  for (const BreakEven& found : curve.break_evens) {
    plot.marks.push_back(
        {found.value, fmt::format("{} breaks even at {}", found.deployment, figure(found.value))});
  }
  return plots::draw_lines(plot, kWidth - 2 * kMargin);
}

plots::Drawing bars_of(const std::vector<PricedRow>& rows) {
  std::vector<plots::ValueBar> bars;
  for (const PricedRow& row : rows) {
    bars.push_back({label_of(row),
                    row.per_1000_dollars,
                    fmt::format("{} ({:.3f}x)", figure(row.per_1000_dollars), row.ratio),
                    {},
                    {}});
  }
  return plots::draw_bars(bars, kWidth - 2 * kMargin);
}

}  // namespace

std::string svg_of(const DollarsResult& result) {
  plots::Drawing all;
  all.height = kTop;
  all.elements = plots::words_at(kMargin, 22, "start", "samples/s per $1000") +
                 plots::words_at(
                     kMargin, 42, "start",
                     fmt::format("prices of {}: {}", result.prices.date(), result.prices.source()));
  const auto add = [&all](const plots::Drawing& drawing) {
    all.elements += plots::moved(drawing.elements, kMargin, all.height);
    all.height += drawing.height + kGap;
  };
  for (const Curve& curve : result.curves) add(lines_of(curve));
  if (result.curves.empty()) add(bars_of(result.rows));
  return plots::document(kWidth, all);
}

}  // namespace phub::bench
