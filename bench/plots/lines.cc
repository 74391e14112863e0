#include "bench/plots/lines.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

namespace phub::bench::plots {
namespace {

constexpr double kLeft = 66.0;
constexpr double kRight = 20.0;
constexpr double kWidest = 300.0;  // how high a plot is at most
constexpr double kFlat = 0.55;     // of its width
constexpr double kBottom = 50.0;   // ticks and the axis' name
constexpr double kLegendLine = 20.0;
constexpr double kHeadroom = 1.08;
constexpr int kTicks = 5;
constexpr double kTickWidth = 56.0;  // that an x's figure needs

// Where values lie in the picture.
class LineFrame {
 public:
  LineFrame(const LinePlot& plot, double width, double top)
      : top_(top), right_(width - kRight), height_(std::min(kWidest, kFlat * width)) {
    bool is_first = true;
    for (const NamedLine& line : plot.lines) {
      for (const LinePoint& point : line.points) {
        x_low_ = is_first ? point.x : std::min(x_low_, point.x);
        x_high_ = is_first ? point.x : std::max(x_high_, point.x);
        y_low_ = std::min(y_low_, point.y);
        y_high_ = std::max(y_high_, point.y);
        is_first = false;
      }
    }
    y_high_ *= kHeadroom;
    if (y_high_ <= y_low_) y_high_ = y_low_ + 1.0;
    is_logarithmic_ = plot.is_logarithmic && x_low_ > 0.0;
  }

  double x(double value) const {
    const double span = way(x_high_) - way(x_low_);
    return kLeft + (span > 0.0 ? (way(value) - way(x_low_)) / span : 0.5) * (right_ - kLeft);
  }
  double y(double value) const {
    return top_ + height_ * (1.0 - (value / (y_high_ - y_low_) - y_low_ / (y_high_ - y_low_)));
  }
  // The value at a share of the axis.
  double at(double share) const {
    if (is_logarithmic_) return x_low_ * std::pow(x_high_ / x_low_, share);
    return x_low_ + share * (x_high_ - x_low_);
  }
  bool has(double x) const { return x >= x_low_ && x <= x_high_; }
  double right() const { return right_; }
  double top() const { return top_; }
  double bottom() const { return top_ + height_; }
  double y_low() const { return y_low_; }
  double y_high() const { return y_high_; }

 private:
  double way(double value) const { return is_logarithmic_ ? std::log(value) : value; }

  double top_ = 0.0;
  double right_ = 0.0;
  double height_ = 0.0;
  double x_low_ = 0.0;
  double x_high_ = 0.0;
  double y_low_ = 0.0;
  double y_high_ = 0.0;
  bool is_logarithmic_ = false;
};

// The values themselves where they are few, else even shares of the axis.
std::set<double> ticks_of(const LinePlot& plot, const LineFrame& frame) {
  std::set<double> ticks;
  for (const NamedLine& line : plot.lines) {
    for (const LinePoint& point : line.points) {
      ticks.insert(point.x);
      if (ticks.size() > kTicks + 1) break;
    }
  }
  if (ticks.size() <= kTicks + 1) return ticks;
  ticks.clear();
  for (int i = 0; i <= kTicks; ++i) {
    const double value = frame.at(static_cast<double>(i) / kTicks);
    ticks.insert(plot.is_counted ? std::round(value) : value);
  }
  return ticks;
}

std::string axes_svg(const LinePlot& plot, const LineFrame& frame) {
  std::string svg;
  const double step = tick_step(frame.y_high() - frame.y_low(), kTicks);
  for (double tick = std::ceil(frame.y_low() / step); tick * step <= frame.y_high(); ++tick) {
    const double y = frame.y(tick * step);
    svg += rule_at(kLeft, y, frame.right(), y, "grid");
    svg += words_at(kLeft - 6, y + 4, "end", plot.y_figure(tick * step));
  }
  double last = -kTickWidth;
  for (const double tick : ticks_of(plot, frame)) {
    const double x = frame.x(tick);
    svg += rule_at(x, frame.top(), x, frame.bottom(), "grid");
    if (x - last < kTickWidth) continue;  // its figure would touch the one before
    svg += words_at(x, frame.bottom() + 18, "middle", plot.x_figure(tick));
    last = x;
  }
  return svg + words_at((kLeft + frame.right()) / 2, frame.bottom() + 40, "middle", plot.axis);
}

std::string line_svg(const NamedLine& line, const LineFrame& frame, const char* colour) {
  std::string points;
  std::string dots;
  for (const LinePoint& point : line.points) {
    const double x = frame.x(point.x);
    const double y = frame.y(point.y);
    points += fmt::format("{}{:.1f},{:.1f}", points.empty() ? "" : " ", x, y);
    if (line.has_dots) {
      dots +=
          fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"4\" fill=\"{}\"/>\n", x, y, colour);
    }
  }
  return fmt::format("<polyline class=\"curve\" stroke=\"{}\" points=\"{}\"/>\n{}", colour, points,
                     dots);
}

}  // namespace

Drawing draw_lines(const LinePlot& plot, double width) {
  Drawing drawing;
  double y = 14.0;
  const auto legend = [&](const std::string& name, const std::string& sign) {
    drawing.elements += sign + words_at(18, y, "start", fitted(name, width - 18));
    y += kLegendLine;
  };
  for (std::size_t i = 0; i < plot.lines.size(); ++i) {
    legend(plot.lines[i].name, box_at(0, y - 10, 12, 12, colour_of(i)));
  }
  for (const AxisMark& mark : plot.marks) {
    legend(mark.text,
           fmt::format("<path class=\"axis\" stroke-dasharray=\"4 3\" d=\"M6 {:.1f}v14\"/>\n",
                       y - 12));
  }
  const LineFrame frame(plot, width, y);
  drawing.elements += axes_svg(plot, frame);
  for (std::size_t i = 0; i < plot.lines.size(); ++i) {
    drawing.elements += line_svg(plot.lines[i], frame, colour_of(i));
  }
  for (const AxisMark& mark : plot.marks) {
    if (!frame.has(mark.x)) continue;
    const double x = frame.x(mark.x);
    drawing.elements += rule_at(x, frame.top(), x, frame.bottom(), "even");
  }
  drawing.height = frame.bottom() + kBottom;
  return drawing;
}

}  // namespace phub::bench::plots
