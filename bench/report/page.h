// Pieces of the page: tables, figures, sections, and the page around them.
//
// Values and pure functions; any thread. All text that is given is escaped here.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "bench/plots/bars.h"
#include "bench/plots/lines.h"

namespace phub::bench::report {

// What one measurement, prediction or training has to show.
struct Section {
  std::string title;
  std::string basis;  // "measured", "predicted": how its figures came to be
  std::string html;
  std::string file{};     // where it is from
  std::string written{};  // when that was
};

struct Fact {
  std::string name;
  std::string value;
};

class PageTable {
 public:
  // ">SIZE|NAME": the titles; the cells below one that begins with '>' are aligned to the right.
  explicit PageTable(std::string_view titles);

  // REQUIRES: as many cells as columns.
  void add(std::vector<std::string> cells);

  // Without columns in which nothing stands. kShort: folded when long, and a very long one is cut,
  // which is said.
  enum class Length { kShort, kWhole };
  std::string to_html(Length length = Length::kShort) const;

 private:
  struct Column {
    std::string title;
    bool is_right = false;
    bool is_used = false;  // a cell is neither empty nor a dash
    bool is_wide = false;  // a cell that wants a line of its own on a phone
  };
  std::string row_html(const std::vector<std::string>& cells) const;

  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

std::string facts_html(const std::vector<Fact>& facts);
std::string note(std::string_view text);
std::string heading(std::string_view text);  // within a section
std::string figure(std::string_view caption, const std::vector<plots::ValueBar>& bars);
std::string figure(std::string_view caption, const plots::LinePlot& plot);
// Figures side by side where there is room.
std::string side_by_side(const std::string& figures);
// A file of SVG as a picture: the browser runs nothing in it and fetches nothing for it.
std::string embedded_svg(std::string_view caption, std::string_view svg);

// The whole document. It names nothing outside itself and forbids the browser to fetch anything.
std::string page_of(std::string_view title, const std::vector<Fact>& facts,
                    const std::vector<Section>& sections, std::string_view made_by);
// What a report is known by.
bool is_page(std::string_view text);

}  // namespace phub::bench::report
