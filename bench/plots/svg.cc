#include "bench/plots/svg.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "common/base/visible.h"

namespace phub::bench::plots {
namespace {

constexpr std::array kColours = {"#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9"};
constexpr double kLetter = 7.0;  // wide, on average

std::size_t letters_of(std::string_view text) {
  std::size_t letters = 0;
  for (const char byte : text) letters += (static_cast<unsigned char>(byte) & 0xC0U) != 0x80U;
  return letters;
}

}  // namespace

std::string escaped(std::string_view text) {
  std::string safe;
  for (const char character : visible(text)) {
    switch (character) {
      case '&':
        safe += "&amp;";
        break;
      case '<':
        safe += "&lt;";
        break;
      case '>':
        safe += "&gt;";
        break;
      case '"':
        safe += "&quot;";
        break;
      case '\'':
        safe += "&#39;";
        break;
      default:
        safe += character;
    }
  }
  return safe;
}

std::string words_at(double x, double y, std::string_view anchor, std::string_view text) {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\">{}</text>\n", x, y, anchor,
                     escaped(text));
}

std::string rule_at(double x1, double y1, double x2, double y2, std::string_view kind) {
  return fmt::format(
      "<line class=\"{}\" x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\"/>\n", kind, x1,
      y1, x2, y2);
}

std::string box_at(double x, double y, double width, double height, std::string_view colour) {
  return fmt::format(
      "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" fill=\"{}\"/>\n", x, y,
      width, height, colour);
}

std::string moved(const std::string& elements, double x, double y) {
  return fmt::format("<g transform=\"translate({:.1f} {:.1f})\">\n{}</g>\n", x, y, elements);
}

const char* colour_of(std::size_t index) { return kColours[index % kColours.size()]; }

double width_of(std::string_view text) { return kLetter * static_cast<double>(letters_of(text)); }

std::string fitted(std::string_view text, double width) {
  if (width_of(text) <= width) return std::string(text);
  const std::size_t room = static_cast<std::size_t>(std::max(0.0, width / kLetter - 3.0));
  std::size_t end = 0;
  for (std::size_t letters = 0; end < text.size(); ++end) {
    const bool begins = (static_cast<unsigned char>(text[end]) & 0xC0U) != 0x80U;
    if (begins && letters++ == room) break;
  }
  return std::string(text.substr(0, end)) + "...";
}

double tick_step(double most, int ticks) {
  const double power = std::pow(10.0, std::floor(std::log10(most / ticks)));
  for (const double step : {1.0, 2.0, 5.0}) {
    if (step * power * ticks >= most) return step * power;
  }
  return 10.0 * power;
}

std::string_view style() {
  return "text{fill:#222;font:13px sans-serif}.title{font-size:15px}.ground{fill:#fff}"
         ".grid{stroke:#8884}.axis{stroke:#888}.curve{fill:none;stroke-width:2.5}"
         ".even{stroke:#888;stroke-dasharray:4 3}.range{stroke:#222;stroke-width:1.5}"
         ".limit{stroke:#a3232a;stroke-width:2}.edge{stroke:#fff;stroke-width:.3}.bar{fill:#7db7ea}"
         "@media (prefers-color-scheme:dark){text{fill:#e4e8ec}.ground{fill:#1c2026}"
         ".range{stroke:#e4e8ec}.limit{stroke:#f0878d}.edge{stroke:#1c2026}.bar{fill:#2a6ca6}}";
}

std::string document(double width, const Drawing& drawing) {
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0:.0f} {1:.0f}\" "
      "width=\"{0:.0f}\" height=\"{1:.0f}\">\n<style>{2}</style>\n"
      "<rect class=\"ground\" width=\"100%\" height=\"100%\"/>\n{3}</svg>\n",
      width, drawing.height, style(), drawing.elements);
}

std::string in_page(double width, const Drawing& drawing, std::string_view label) {
  return fmt::format(
      "<svg role=\"img\" aria-label=\"{}\" viewBox=\"0 0 {:.0f} {:.0f}\">\n{}</svg>\n",
      escaped(label), width, drawing.height, drawing.elements);
}

}  // namespace phub::bench::plots
