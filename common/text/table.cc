#include "common/text/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

#include "common/base/check.h"
#include "common/base/visible.h"

namespace phub {
namespace {

constexpr double kKibi = 1024.0;
constexpr std::uint64_t kMinute = 60;
constexpr std::uint64_t kHour = 3600;

// Whether a byte of UTF-8 continues a character.
bool is_continued(char byte) { return (static_cast<unsigned char>(byte) & 0xC0U) == 0x80U; }

// Columns on the screen: characters.
std::size_t width_of(const std::string& text) {
  return text.size() -
         static_cast<std::size_t>(std::count_if(text.begin(), text.end(), is_continued));
}

constexpr std::size_t kGap = 2;          // between two columns
constexpr std::size_t kElasticMin = 20;  // that others go for
constexpr std::string_view kCut = "...";

// At most so many columns of the screen. REQUIRES: room for kCut.
std::string cut(const std::string& text, std::size_t columns) {
  if (width_of(text) <= columns) return text;
  std::size_t end = 0;
  for (std::size_t width = kCut.size(); width < columns; ++width) {
    do ++end;
    while (end < text.size() && is_continued(text[end]));
  }
  return text.substr(0, end).append(kCut);
}

template <typename Entries>
void erase_where(Entries& entries, const std::vector<bool>& is_gone) {
  Entries rest;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    if (!is_gone[i]) rest.push_back(std::move(entries[i]));
  }
  entries = std::move(rest);
}

}  // namespace

Table::Table(std::string_view titles) : rows_(1) {
  for (std::size_t begin = 0; begin <= titles.size();) {
    const std::size_t end = std::min(titles.find('|', begin), titles.size());
    std::string_view title = titles.substr(begin, end - begin);
    to_the_right_.push_back(title.starts_with('>'));
    if (to_the_right_.back()) title.remove_prefix(1);
    rows_[0].emplace_back(title);
    begin = end + 1;
  }
}

Table::Table(std::vector<std::string> titles, std::size_t left)
    : to_the_right_(titles.size(), true), rows_{std::move(titles)} {
  for (std::size_t i = 0; i < left; ++i) to_the_right_[i] = false;
}

void Table::add(std::vector<std::string> cells) {
  PHUB_CHECK(cells.size() == to_the_right_.size(), "a row has a cell for each column");
  // Before widths are counted: printing makes text visible, and that makes it longer.
  for (std::string& cell : cells) cell = visible(cell);
  rows_.push_back(std::move(cells));
}

std::vector<std::size_t> Table::widths() const {
  std::vector<std::size_t> widths(to_the_right_.size());
  for (const auto& row : rows_) {
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], width_of(row[i]));
  }
  return widths;
}

std::string Table::to_string() const {
  const std::vector<std::size_t> widths = this->widths();
  std::string text;
  for (const auto& row : rows_) {
    for (std::size_t i = 0; i < row.size(); ++i) {
      const std::string padding(widths[i] - width_of(row[i]), ' ');
      if (i > 0) text += "  ";
      text.append(to_the_right_[i] ? padding : row[i]).append(to_the_right_[i] ? row[i] : padding);
    }
    text.erase(text.find_last_not_of(' ') + 1);
    if (!text.empty()) text += "\n";
  }
  return text;
}

std::string Table::to_string(const Fit& fit) const {
  if (fit.columns == 0) return to_string();
  std::vector<std::size_t> widths = this->widths();
  const std::size_t natural = widths[fit.elastic];
  widths[fit.elastic] = std::min(natural, kElasticMin);
  std::vector<bool> is_gone(widths.size());
  std::size_t all = std::accumulate(widths.begin(), widths.end(), kGap * (widths.size() - 1));
  std::string gone;
  for (const std::size_t column : fit.least_first) {
    if (all <= fit.columns) break;
    is_gone[column] = true;
    all -= widths[column] + kGap;
    const std::string& title = rows_[0][column];
    if (!title.empty()) gone += (gone.empty() ? "" : ", ") + title;
  }
  const std::size_t room = fit.columns - std::min(fit.columns, all - widths[fit.elastic]);
  Table narrow(*this);
  for (auto& row : narrow.rows_) {
    row[fit.elastic] = cut(row[fit.elastic], std::max(room, kElasticMin));
    erase_where(row, is_gone);
  }
  erase_where(narrow.to_the_right_, is_gone);
  return narrow.to_string() + (gone.empty() ? "" : "(too narrow for: " + gone + ")\n");
}

std::string human_bytes(std::uint64_t bytes) {
  static constexpr std::array kUnits = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  auto value = static_cast<double>(bytes);
  std::size_t unit = 0;
  // What would be printed as 1024.0 belongs to the next unit.
  while (value >= kKibi - 0.05 && unit + 1 < kUnits.size()) {
    value /= kKibi;
    ++unit;
  }
  return unit == 0 ? fmt::format("{} B", bytes) : fmt::format("{:.1f} {}", value, kUnits[unit]);
}

std::string human_count(std::uint64_t count) {
  std::string text = std::to_string(count);
  for (std::size_t end = text.size(); end > 3; end -= 3) text.insert(end - 3, 1, ',');
  return text;
}

std::string human_seconds(double seconds) {
  if (seconds < 60.0) return fmt::format("{:.1f} s", seconds);
  const auto whole = static_cast<std::uint64_t>(seconds);
  if (whole < kHour) return fmt::format("{} min {:02} s", whole / kMinute, whole % kMinute);
  return fmt::format("{} h {:02} min", whole / kHour, whole % kHour / kMinute);
}

std::string human_time(double seconds) {
  if (seconds >= 0.99995) return fmt::format("{:.1f} s", seconds);
  if (seconds >= 0.00099995) return fmt::format("{:.1f} ms", 1e3 * seconds);
  return fmt::format("{:.0f} us", 1e6 * seconds);
}

std::string human_share(double share) { return fmt::format("{:.1f} %", 100.0 * share); }

std::string human_port(const std::string& device, std::uint32_t port) {
  return fmt::format("{}/{}", device, port);
}

}  // namespace phub
