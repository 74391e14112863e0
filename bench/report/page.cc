#include "bench/report/page.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "bench/report/fields.h"
#include "bench/report/style.h"
#include "common/base/check.h"

namespace phub::bench::report {
namespace {

using plots::escaped;

constexpr double kFigureWidth = 400.0;  // a phone's, so that its letters are as the page's
constexpr std::size_t kMostRows = 300;
constexpr std::size_t kMostUnfolded = 24;
constexpr std::size_t kMostNarrow = 20;  // bytes of a title and a cell in half a phone's width
constexpr std::string_view kOpening =
    "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
    "<meta name=\"generator\" content=\"phub-bench report\">\n";

std::string captioned(std::string_view caption, const std::string& content) {
  return fmt::format("<figure><figcaption>{}</figcaption>\n{}</figure>\n", escaped(caption),
                     content);
}

// All but what a URL may have as it is.
std::string percent_encoded(std::string_view text) {
  std::string url;
  for (const char byte : text) {
    const bool is_letter = (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z');
    const bool is_plain = is_letter || (byte >= '0' && byte <= '9') ||
                          std::string_view("-_.~/").find(byte) != std::string_view::npos;
    if (is_plain) {
      url += byte;
    } else {
      url += fmt::format("%{:02X}", static_cast<unsigned char>(byte));
    }
  }
  return url;
}

std::string contents_of(const std::vector<Section>& sections) {
  std::string html = "<nav><ol>\n";
  for (std::size_t i = 0; i < sections.size(); ++i) {
    html += fmt::format("<li><a href=\"#s{}\">{}</a> <span class=\"dim\">{}</span></li>\n", i,
                        escaped(sections[i].title), escaped(sections[i].file));
  }
  return html + "</ol></nav>\n";
}

}  // namespace

PageTable::PageTable(std::string_view titles) {
  while (true) {
    const std::size_t end = titles.find('|');
    std::string_view title = titles.substr(0, end);
    const bool is_right = title.starts_with('>');
    if (is_right) title.remove_prefix(1);
    columns_.push_back({std::string(title), is_right});
    if (end == std::string_view::npos) break;
    titles.remove_prefix(end + 1);
  }
}

void PageTable::add(std::vector<std::string> cells) {
  PHUB_CHECK(cells.size() == columns_.size(), "a row has a cell for each column");
  for (std::size_t i = 0; i < cells.size(); ++i) {
    columns_[i].is_used = columns_[i].is_used || (!cells[i].empty() && cells[i] != kAbsent);
    columns_[i].is_wide =
        columns_[i].is_wide || columns_[i].title.size() + cells[i].size() > kMostNarrow;
  }
  rows_.push_back(std::move(cells));
}

std::string PageTable::row_html(const std::vector<std::string>& cells) const {
  std::string html = "<tr>";
  for (std::size_t i = 0; i < cells.size(); ++i) {
    const Column& column = columns_[i];
    if (!column.is_used) continue;
    const bool is_narrow = column.is_right && !column.is_wide;
    html += fmt::format("<td class=\"{}{}{}\" data-label=\"{}\"><span>{}</span></td>",
                        column.is_right ? "n" : "", is_narrow ? "" : " w",
                        cells[i].empty() ? " e" : "", escaped(column.title), escaped(cells[i]));
  }
  return html + "</tr>\n";
}

std::string PageTable::to_html(Length length) const {
  if (rows_.empty()) return {};
  const bool is_long = length == Length::kShort && rows_.size() > kMostUnfolded;
  std::string html = fmt::format("<div class=\"wide{}\">", is_long ? " long" : "");
  if (is_long) html += fmt::format("<details><summary>{} rows</summary>", rows_.size());
  html += "<table><thead><tr>";
  for (const Column& column : columns_) {
    if (!column.is_used) continue;
    html +=
        fmt::format("<th{}>{}</th>", column.is_right ? " class=\"n\"" : "", escaped(column.title));
  }
  html += "</tr></thead>\n<tbody>\n";
  const std::size_t shown =
      length == Length::kShort ? std::min(rows_.size(), kMostRows) : rows_.size();
  for (std::size_t i = 0; i < shown; ++i) html += row_html(rows_[i]);
  html += "</tbody></table>\n";
  if (shown < rows_.size()) {
    html += note(fmt::format("The first {} of {} rows; the file has all.", shown, rows_.size()));
  }
  return html + (is_long ? "</details></div>\n" : "</div>\n");
}

std::string facts_html(const std::vector<Fact>& facts) {
  std::string html = "<dl>\n";
  for (const Fact& fact : facts) {
    html +=
        fmt::format("<div><dt>{}</dt><dd>{}</dd></div>\n", escaped(fact.name), escaped(fact.value));
  }
  return html + "</dl>\n";
}

std::string note(std::string_view text) {
  return fmt::format("<p class=\"note\">{}</p>\n", escaped(text));
}

std::string heading(std::string_view text) { return fmt::format("<h3>{}</h3>\n", escaped(text)); }

std::string figure(std::string_view caption, const std::vector<plots::ValueBar>& bars) {
  if (bars.empty()) return {};
  return captioned(caption,
                   plots::in_page(kFigureWidth, plots::draw_bars(bars, kFigureWidth), caption));
}

std::string figure(std::string_view caption, const plots::LinePlot& plot) {
  const bool has_points = std::any_of(plot.lines.begin(), plot.lines.end(),
                                      [](const auto& line) { return !line.points.empty(); });
  if (!has_points) return {};
  return captioned(caption,
                   plots::in_page(kFigureWidth, plots::draw_lines(plot, kFigureWidth), caption));
}

std::string side_by_side(const std::string& figures) {
  return figures.empty() ? "" : "<div class=\"figures\">\n" + figures + "</div>\n";
}

std::string embedded_svg(std::string_view caption, std::string_view svg) {
  return captioned(caption,
                   fmt::format("<div class=\"wide\"><img alt=\"{}\" src=\"data:image/svg+xml,{}\">"
                               "</div>\n",
                               escaped(caption), percent_encoded(svg)));
}

std::string page_of(std::string_view title, const std::vector<Fact>& facts,
                    const std::vector<Section>& sections, std::string_view made_by) {
  std::string html(kOpening);
  html += fmt::format(
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
      "style-src 'unsafe-inline'; img-src data:\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<link rel=\"icon\" href=\"data:,\">\n<title>{}</title>\n<style>\n{}{}\n</style>\n</head>\n"
      "<body>\n",
      escaped(title), page_style(), plots::style());
  html += fmt::format("<header><h1><span class=\"mark\"></span>{}</h1>\n{}</header>\n",
                      escaped(title), facts_html(facts));
  html += contents_of(sections) + "<main>\n";
  for (std::size_t i = 0; i < sections.size(); ++i) {
    const Section& section = sections[i];
    html += fmt::format("<section id=\"s{}\"><h2>{}", i, escaped(section.title));
    if (!section.basis.empty()) {
      html += fmt::format(" <span class=\"basis\">{}</span>", escaped(section.basis));
    }
    html += fmt::format(
        " <span class=\"dim\">{} {}</span></h2>\n<div class=\"body\">\n{}</div></section>\n",
        escaped(section.file), escaped(section.written), section.html);
  }
  return html + fmt::format("</main>\n<footer>{}</footer>\n</body>\n</html>\n", escaped(made_by));
}

bool is_page(std::string_view text) { return text.starts_with(kOpening); }

}  // namespace phub::bench::report
