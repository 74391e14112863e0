// Pictures: where bars and lines lie, what ticks are, and text that cannot break out.
#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <regex>

#include "bench/plots/bars.h"
#include "bench/plots/lines.h"

namespace phub::bench::plots {
namespace {

using Catch::Matchers::Contains;

// All numbers of an attribute, in order.
std::vector<double> values_of(const std::string& svg, const std::string& pattern) {
  std::vector<double> values;
  const std::regex regex(pattern + "=\"([-0-9.]+)\"");
  for (std::sregex_iterator at(svg.begin(), svg.end(), regex), end; at != end; ++at) {
    values.push_back(std::stod((*at)[1]));
  }
  return values;
}

std::size_t count(const std::string& text, const std::string& what) {
  std::size_t found = 0;
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) {
    ++found;
  }
  return found;
}

std::string plain(double value) { return std::to_string(static_cast<int>(std::round(value))); }

LinePlot plot_of(std::vector<LinePoint> points, bool is_logarithmic) {
  return {"x", {{"line", std::move(points), false}}, {}, is_logarithmic, false, plain, plain};
}

// The points of the first line, as "x,y x,y".
std::string points_of(const Drawing& drawing) {
  std::smatch found;
  REQUIRE(std::regex_search(drawing.elements, found, std::regex("points=\"([^\"]*)\"")));
  return found[1];
}

}  // namespace

TEST_CASE("text cannot end an element, an attribute or a terminal's line") {
  CHECK(escaped("a<b>&\"'") == "a&lt;b&gt;&amp;&quot;&#39;");
  CHECK(escaped("\x1b[31m\xff"
                "é") == "?[31m?é");
}

TEST_CASE("a text that is too wide is cut between letters") {
  CHECK(fitted("short", 100) == "short");
  const std::string cut = fitted("ééééééééééééééééééééééééééééé", 70);
  CHECK(cut == "ééééééé...");
  CHECK(fitted("abcdefghijklmnop", 1) == "...");
}

TEST_CASE("ticks are 1, 2 or 5 times a power of ten, and not more than asked for") {
  CHECK(tick_step(10, 5) == Approx(2));
  CHECK(tick_step(11, 5) == Approx(5));
  CHECK(tick_step(0.0049, 5) == Approx(0.001));
  CHECK(tick_step(5e17, 5) == Approx(1e17));
}

TEST_CASE("bars are as long as their values, with range and limit on the same scale") {
  const Drawing drawing =
      draw_bars({{"a", 10, "ten", ValueRange{5, 20}, 15}, {"b", 20, "twenty", {}, {}}}, 400);
  const std::vector<double> widths = values_of(drawing.elements, "<rect[^>]* width");
  REQUIRE(widths.size() == 2);
  CHECK(widths[1] == Approx(2 * widths[0]).margin(0.2));
  CHECK_THAT(drawing.elements, Contains(fmt::format("x1=\"{:.1f}\"", widths[1] / 4)));
  CHECK_THAT(drawing.elements,
             Contains(fmt::format("class=\"limit\" x1=\"{:.1f}\"", 0.75 * widths[1])));
  CHECK(count(drawing.elements, "class=\"axis\"") == 0);
}

TEST_CASE("a bar below nothing goes the other way from a line at nothing") {
  const Drawing drawing = draw_bars({{"loss", -5, "-5", {}, {}}, {"gain", 5, "5", {}, {}}}, 400);
  const std::vector<double> begins = values_of(drawing.elements, "<rect[^>]* x");
  const std::vector<double> widths = values_of(drawing.elements, "<rect[^>]* width");
  REQUIRE(begins.size() == 2);
  CHECK(begins[0] == 0);
  CHECK(widths[0] == Approx(widths[1]).margin(0.2));
  CHECK(begins[1] == Approx(widths[0]).margin(0.2));
  CHECK(count(drawing.elements, "class=\"axis\"") == 2);  // at each bar
}

TEST_CASE("bars that are all nothing have no length, and no number is missing") {
  const Drawing drawing = draw_bars({{"a", 0, "0", {}, {}}}, 400);
  CHECK(values_of(drawing.elements, "<rect[^>]* width") == std::vector<double>{0});
  CHECK_THAT(drawing.elements, !Contains("nan") && !Contains("inf"));
}

TEST_CASE("a line's points lie evenly on its axis, by value or by logarithm") {
  const auto x_of = [](const std::string& points) {
    std::vector<double> xs;
    const std::regex pair("([-0-9.]+),");
    for (std::sregex_iterator at(points.begin(), points.end(), pair), end; at != end; ++at) {
      xs.push_back(std::stod((*at)[1]));
    }
    return xs;
  };
  const auto even = x_of(points_of(draw_lines(plot_of({{0, 1}, {5, 2}, {10, 3}}, false), 400)));
  REQUIRE(even.size() == 3);
  CHECK(even[1] - even[0] == Approx(even[2] - even[1]).margin(0.2));
  const auto log = x_of(points_of(draw_lines(plot_of({{1, 1}, {10, 2}, {100, 3}}, true), 400)));
  REQUIRE(log.size() == 3);
  CHECK(log[1] - log[0] == Approx(log[2] - log[1]).margin(0.2));
  CHECK(log == x_of(points_of(draw_lines(plot_of({{1, 1}, {10, 2}, {100, 3}}, true), 400))));
}

TEST_CASE("lines of one point, of nothing, and below nothing are drawn with numbers") {
  for (const auto& points : {std::vector<LinePoint>{{3, 3}}, std::vector<LinePoint>{{1, 0}, {2, 0}},
                             std::vector<LinePoint>{{0, -7}, {1, 1e17}},
                             std::vector<LinePoint>{{-1e18, 1e-300}, {1e18, 2e-300}}}) {
    for (const bool is_logarithmic : {true, false}) {
      const Drawing drawing = draw_lines(plot_of(points, is_logarithmic), 400);
      CHECK_THAT(drawing.elements, !Contains("nan") && !Contains("inf"));
      CHECK(drawing.height < 400);
    }
  }
}

TEST_CASE("marks cross the picture, and their words stand in the legend") {
  LinePlot plot = plot_of({{1, 1}, {2, 2}}, false);
  const double before = draw_lines(plot, 400).height;
  plot.marks = {{1.5, "a < b"}};
  const Drawing drawing = draw_lines(plot, 400);
  CHECK(count(drawing.elements, "class=\"even\"") == 1);
  CHECK_THAT(drawing.elements, Contains("a &lt; b"));
  CHECK(drawing.height > before);
  plot.is_logarithmic = true;
  plot.marks = {{-1, "before it"}, {3, "behind it"}};
  CHECK(count(draw_lines(plot, 400).elements, "class=\"even\"") == 0);
}

TEST_CASE("a file has the style of both colour schemes, and names nothing outside itself") {
  const std::string file = document(400, draw_bars({{"a", 1, "1", {}, {}}}, 400));
  CHECK_THAT(file, Contains("prefers-color-scheme:dark") && Contains("</svg>"));
  CHECK(count(file, "http") == 1);  // the name of SVG
  CHECK_THAT(in_page(400, {"", 10}, "say \"it\""), Contains("aria-label=\"say &quot;it&quot;\""));
}

}  // namespace phub::bench::plots
