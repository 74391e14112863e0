// Lines over an axis, with what is remarkable on it.
//
// Pure functions; any thread.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "bench/plots/svg.h"

namespace phub::bench::plots {

struct LinePoint {
  double x = 0.0;
  double y = 0.0;
};

struct NamedLine {
  std::string name;
  std::vector<LinePoint> points;  // x rises
  bool has_dots = false;          // its points are few, and between them nothing is known
};

// A dashed line across the picture, if the axis reaches it; its text stands in the legend.
struct AxisMark {
  double x = 0.0;
  std::string text;
};

struct LinePlot {
  std::string axis;  // what x is
  std::vector<NamedLine> lines;
  std::vector<AxisMark> marks;
  bool is_logarithmic = false;  // x; only where all x are above 0
  bool is_counted = false;      // x are whole numbers
  std::function<std::string(double)> x_figure;
  std::function<std::string(double)> y_figure;
};

// y runs from 0, or from the least if that is negative. REQUIRES: finite numbers, a point.
Drawing draw_lines(const LinePlot& plot, double width);

}  // namespace phub::bench::plots
