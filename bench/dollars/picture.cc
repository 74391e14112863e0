#include "bench/dollars/picture.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace phub::bench {
namespace {

constexpr double kWidth = 720.0;
constexpr double kLeft = 64.0;
constexpr double kRight = 24.0;
constexpr double kPlotHeight = 300.0;
constexpr double kTop = 64.0;     // title and what it is of
constexpr double kBottom = 56.0;  // axis
constexpr double kLegendLine = 20.0;
constexpr double kBarLine = 44.0;
constexpr double kHeadroom = 1.08;
constexpr int kTicks = 5;
// Told apart by the colour-blind too (Okabe and Ito).
constexpr std::array kColours = {"#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9"};

const char* colour_of(std::size_t index) { return kColours[index % kColours.size()]; }

std::string escaped(std::string_view text) {
  std::string safe;
  for (const char character : text) {
    if (character == '&') {
      safe += "&amp;";
    } else if (character == '<') {
      safe += "&lt;";
    } else if (character == '>') {
      safe += "&gt;";
    } else if (character == '"') {
      safe += "&quot;";
    } else {
      safe += character;
    }
  }
  return safe;
}

std::string words_at(double x, double y, const char* anchor, std::string_view text) {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\">{}</text>\n", x, y, anchor,
                     escaped(text));
}

std::string rule_at(double x1, double y1, double x2, double y2, const char* kind) {
  return fmt::format(
      "<line class=\"{}\" x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\"/>\n", kind, x1,
      y1, x2, y2);
}

std::string label_of(const PricedRow& row) {
  return fmt::format("{} ({})", row.deployment, name_of(row.basis));
}

// Where a curve's values lie: x by their logarithm, y from 0.
class Frame {
 public:
  Frame(const Curve& curve, double top) : top_(top) {
    low_ = curve.points.front().value;
    high_ = curve.points.back().value;
    for (const CurvePoint& point : curve.points) {
      for (const PricedRow& row : point.rows) most_ = std::max(most_, row.per_1000_dollars);
    }
    most_ *= kHeadroom;
  }

  double x(double value) const {
    const double span = std::log(high_ / low_);
    const double share = span > 0.0 ? std::log(value / low_) / span : 0.0;
    return kLeft + share * (kWidth - kLeft - kRight);
  }
  double y(double value) const { return top_ + kPlotHeight * (1.0 - value / most_); }
  double low() const { return low_; }
  double high() const { return high_; }
  double most() const { return most_; }

 private:
  double top_ = 0.0;
  double low_ = 0.0;
  double high_ = 0.0;
  double most_ = 0.0;
};

// 1, 2 or 5 times a power of ten, at most kTicks of which reach `most`.
double step_for(double most) {
  const double power = std::pow(10.0, std::floor(std::log10(most / kTicks)));
  for (const double step : {1.0, 2.0, 5.0}) {
    if (step * power * kTicks >= most) return step * power;
  }
  return 10.0 * power;
}

std::string axes_svg(const Frame& frame, const Curve& curve, double top) {
  std::string svg;
  const double step = step_for(frame.most());
  for (double height = 0.0; height <= frame.most(); height += step) {
    svg += rule_at(kLeft, frame.y(height), kWidth - kRight, frame.y(height), "grid");
    svg += words_at(kLeft - 6, frame.y(height) + 4, "end", figure(height));
  }
  double last = 0.0;
  for (int i = 0; i <= kTicks; ++i) {
    const double share = static_cast<double>(i) / kTicks;
    double value = frame.low() * std::pow(frame.high() / frame.low(), share);
    if (curve.is_counted) value = std::round(value);
    if (value == last) continue;
    last = value;
    svg += rule_at(frame.x(value), top, frame.x(value), top + kPlotHeight, "grid");
    svg += words_at(frame.x(value), top + kPlotHeight + 18, "middle", figure(value));
  }
  return svg + words_at((kLeft + kWidth - kRight) / 2, top + kPlotHeight + 40, "middle",
                        title_of(curve.axis));
}

std::string lines_svg(const Frame& frame, const Curve& curve) {
  std::string svg;
  for (std::size_t row = 0; row < curve.points.front().rows.size(); ++row) {
    std::string points;
    for (const CurvePoint& point : curve.points) {
      points += fmt::format("{:.1f},{:.1f} ", frame.x(point.value),
                            frame.y(point.rows[row].per_1000_dollars));
    }
    points.pop_back();
    svg += fmt::format("<polyline class=\"curve\" stroke=\"{}\" points=\"{}\"/>\n", colour_of(row),
                       points);
  }
  return svg;
}

// The words of each one line above those of the one before, at its dashed line.
std::string break_evens_svg(const Frame& frame, const Curve& curve, double top) {
  std::string svg;
  double y = top + kPlotHeight - 8;
  for (const BreakEven& found : curve.break_evens) {
    const double x = frame.x(found.value);
    const bool is_left = x > kWidth / 2;
    svg += rule_at(x, top, x, top + kPlotHeight, "even");
    svg += words_at(is_left ? x - 4 : x + 4, y, is_left ? "end" : "start",
                    fmt::format("{} breaks even at {}", found.deployment, figure(found.value)));
    y -= kLegendLine;
  }
  return svg;
}

double legend_height(const Curve& curve) {
  return kLegendLine * static_cast<double>(curve.points.front().rows.size());
}

double height_of(const Curve& curve) { return legend_height(curve) + kPlotHeight + kBottom; }

std::string curve_svg(const Curve& curve, double top) {
  std::string svg;
  const auto& rows = curve.points.front().rows;
  for (std::size_t row = 0; row < rows.size(); ++row) {
    const double y = top + kLegendLine * static_cast<double>(row) + 8;
    svg += fmt::format("<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"12\" height=\"12\" fill=\"{}\"/>\n",
                       kLeft, y - 10, colour_of(row));
    svg += words_at(kLeft + 18, y, "start", label_of(rows[row]));
  }
  const double plot = top + legend_height(curve);
  const Frame frame(curve, plot);
  return svg + axes_svg(frame, curve, plot) + lines_svg(frame, curve) +
         break_evens_svg(frame, curve, plot);
}

std::string bars_svg(const std::vector<PricedRow>& rows) {
  double most = 0.0;
  for (const PricedRow& row : rows) most = std::max(most, row.per_1000_dollars);
  const double room = kWidth - 2 * kLeft - kRight;
  std::string svg;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const double y = kTop + kBarLine * static_cast<double>(i);
    const double width = room * rows[i].per_1000_dollars / most;
    svg += words_at(kRight, y + 10, "start", label_of(rows[i]));
    svg += fmt::format(
        "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"16\" fill=\"{}\"/>\n", kRight,
        y + 15, width, colour_of(i));
    svg += words_at(kRight + width + 6, y + 28, "start",
                    fmt::format("{} ({:.3f}x)", figure(rows[i].per_1000_dollars), rows[i].ratio));
  }
  return svg;
}

}  // namespace

std::string svg_of(const DollarsResult& result) {
  std::string body;
  double height = kTop;
  for (const Curve& curve : result.curves) {
    body += curve_svg(curve, height);
    height += height_of(curve);
  }
  if (result.curves.empty()) {
    body = bars_svg(result.rows);
    height += kBarLine * static_cast<double>(result.rows.size());
  }
  return fmt::format(
             "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {:.0f} {:.0f}\" "
             "font-family=\"sans-serif\" font-size=\"13\">\n"
             "<style>text{{fill:#222}}.grid{{stroke:#8884;stroke-width:1}}"
             ".curve{{fill:none;stroke-width:2.5}}"
             ".even{{stroke:#888;stroke-width:1;stroke-dasharray:4 3}}"
             "</style>\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n",
             kWidth, height) +
         words_at(kRight, 22, "start", "samples/s per $1000") +
         words_at(kRight, 42, "start",
                  fmt::format("prices of {}: {}", result.prices.date(), result.prices.source())) +
         body + "</svg>\n";
}

}  // namespace phub::bench
