// Pieces of an SVG picture, and text that cannot break out of one.
//
// Pure functions; any thread. Lengths are in units of the picture, letters are 13 units high.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace phub::bench::plots {

// Elements without the picture around them; y runs from 0 to `height`.
struct Drawing {
  std::string elements;
  double height = 0.0;
};

// Text from anywhere as text of XML and HTML, in an element or a quoted attribute: what is not
// UTF-8 and what a terminal would obey is "?".
std::string escaped(std::string_view text);

// `anchor`: start, middle or end.
std::string words_at(double x, double y, std::string_view anchor, std::string_view text);
// `kind` is a class of style(): grid, axis, even, range, limit.
std::string rule_at(double x1, double y1, double x2, double y2, std::string_view kind);
std::string box_at(double x, double y, double width, double height, std::string_view colour);
std::string moved(const std::string& elements, double x, double y);

// Told apart by the colour-blind too (Okabe and Ito); after six they begin again.
const char* colour_of(std::size_t index);

// About how wide the text is drawn.
double width_of(std::string_view text);
// The text, cut with "..." if it is wider than that.
std::string fitted(std::string_view text, double width);

// 1, 2 or 5 times a power of ten, of which at most `ticks` reach `most`. REQUIRES: most > 0.
double tick_step(double most, int ticks);

// The classes above, in both colour schemes.
std::string_view style();

// A file of its own.
std::string document(double width, const Drawing& drawing);
// An element of a page that has the style; `label` is said to those who cannot see it.
std::string in_page(double width, const Drawing& drawing, std::string_view label);

}  // namespace phub::bench::plots
