#include "bench/simulate/columns.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>

namespace phub::bench::simulate {
namespace {

bool is_blank(char c) { return std::isspace(static_cast<unsigned char>(c)) != 0; }

Field trimmed(Field field) {
  while (!field.text.empty() && is_blank(field.text.front())) {
    field.text.remove_prefix(1);
    ++field.column;
  }
  while (!field.text.empty() && is_blank(field.text.back())) field.text.remove_suffix(1);
  return field;
}

}  // namespace

std::vector<Field> fields_of(std::string_view text, std::size_t column) {
  const bool has_comma = text.find(',') != std::string_view::npos;
  const bool has_tab = text.find('\t') != std::string_view::npos;
  const std::string_view ends = has_comma ? "," : has_tab ? "\t" : " \r";
  std::vector<Field> fields;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find_first_of(ends, begin), text.size());
    const Field field = trimmed({text.substr(begin, end - begin), column + begin});
    if (has_comma || has_tab || !field.text.empty()) fields.push_back(field);
    begin = end + 1;
  }
  if (fields.size() > 1 && fields.back().text.empty()) fields.pop_back();  // an end after the last
  return fields;
}

std::vector<Line> lines_of(std::string_view text) {
  std::vector<Line> lines;
  std::size_t number = 0;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const Field line = trimmed({text.substr(begin, end - begin), 1});
    ++number;
    if (!line.text.empty() && line.text.front() != '#') {
      lines.push_back({text.substr(begin, end - begin), number});
    }
    begin = end + 1;
  }
  return lines;
}

Status error_at(const std::string& file, std::size_t line, std::size_t column,
                const std::string& what) {
  return {Code::kInvalidArgument, fmt::format("{}:{}:{}: {}", file, line, column, what)};
}

std::optional<double> number_of(std::string_view text) {
  double value = 0.0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool is_whole = error == std::errc() && end == text.data() + text.size();
  return is_whole && std::isfinite(value) && value >= 0.0 ? std::optional(value) : std::nullopt;
}

bool is_numeric(std::string_view text) {
  double value = 0.0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error != std::errc::invalid_argument && end == text.data() + text.size();
}

Result<double> number_at(const std::string& file, std::size_t line, const Field& field,
                         const char* what, double most) {
  const auto value = number_of(field.text);
  if (value && *value <= most) return *value;
  return error_at(
      file, line, field.column,
      fmt::format("{} is '{}'; a number that is not negative and at most {:g} is wanted", what,
                  field.text, most));
}

}  // namespace phub::bench::simulate
