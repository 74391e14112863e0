#include "bench/report/run_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string_view>

#include "bench/report/sections.h"

namespace phub::bench::report {
namespace {

constexpr std::size_t kMostQuoted = 60;  // characters of somebody's text in a reason
constexpr std::string_view kBlanks = " \t\r\n";

std::string quoted(std::string text) {
  if (text.size() > kMostQuoted) text = text.substr(0, kMostQuoted) + "...";
  return "\"" + text + "\"";
}

std::string_view without_blanks(std::string_view text) {
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  const std::size_t first = text.find_first_not_of(kBlanks);
  return first == std::string_view::npos ? std::string_view() : text.substr(first);
}

// Its root is an svg element: what stands before it are declarations and comments.
bool is_svg(std::string_view text) {
  constexpr std::size_t kFar = 4096;
  if (!text.starts_with('<')) return false;
  const std::string_view beginning = text.substr(0, kFar);
  for (std::size_t at = 0; at != std::string_view::npos; at = beginning.find('<', at + 1)) {
    const std::string_view element = beginning.substr(at + 1);
    if (element.starts_with("svg")) {
      return element.size() > 3 && (kBlanks.find(element[3]) != std::string_view::npos ||
                                    element[3] == '>' || element[3] == '/');
    }
    if (!element.starts_with('?') && !element.starts_with('!')) return false;
    const bool is_comment = element.starts_with("!--");
    at = beginning.find(is_comment ? "-->" : ">", at);
    if (at == std::string_view::npos) return false;
  }
  return false;
}

// An object a line; the lines that are none are told.
Records lines_of(std::string_view text, std::vector<std::string>& left_out) {
  Records records;
  std::size_t bad = 0;
  std::size_t first_bad = 0;
  for (std::size_t number = 1; !text.empty(); ++number) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (without_blanks(line).empty()) continue;
    Record record = Record::parse(line, nullptr, false);
    if (record.is_object()) {
      records.push_back(std::move(record));
    } else if (bad++ == 0) {
      first_bad = number;
    }
  }
  if (records.empty()) {
    left_out.assign({"is neither JSON nor SVG"});
  } else if (bad > 0) {
    left_out.push_back(
        fmt::format("has {} line(s) that are no JSON objects, the first is line {}; was the "
                    "file cut, or something else printed into it?",
                    bad, first_bad));
  }
  return records;
}

Records records_of(std::string_view text, std::vector<std::string>& left_out) {
  const bool is_array = text.starts_with('[');
  if (!is_array && !text.starts_with('{')) return lines_of(text, left_out);
  Record whole = Record::parse(text, nullptr, false);
  if (whole.is_object()) return {std::move(whole)};
  if (!whole.is_array()) return lines_of(text, left_out);
  Records records;
  for (Record& record : whole) records.push_back(std::move(record));
  if (records.empty()) left_out.push_back("is an empty array");
  return records;
}

std::string why_not(const Record& record) {
  const std::string bench = record.is_object() ? word_in(record, "bench") : "";
  if (!bench.empty()) return "bench " + quoted(bench) + " is not known to this report";
  const auto error = record.is_object() ? record.find("error") : record.end();
  if (record.is_object() && error != record.end() && error->is_object()) {
    return "a command failed: " + quoted(word_in(*error, "message"));
  }
  return "no output that is known of phub-bench, phub-worker, phubctl trace or lscpu --json";
}

}  // namespace

RunFile recognise(std::string name, const std::string& text) {
  RunFile file;
  file.name = std::move(name);
  const std::string_view content = without_blanks(text);
  if (content.empty()) {
    file.left_out.push_back("is empty");
    return file;
  }
  if (is_page(content)) {
    file.left_out.push_back("is an earlier report");
    return file;
  }
  if (is_svg(content)) {
    file.svg = text;
    return file;
  }
  std::map<std::string, std::size_t> unknown;
  for (Record& record : records_of(content, file.left_out)) {
    const std::string kind = kind_of(record);
    if (kind.empty()) {
      ++unknown[why_not(record)];
      continue;
    }
    const auto same = [&](const auto& part) { return part.first == kind; };
    auto part = std::find_if(file.parts.begin(), file.parts.end(), same);
    if (part == file.parts.end()) part = file.parts.insert(part, {kind, {}});
    part->second.push_back(std::move(record));
  }
  for (const auto& [why, count] : unknown) {
    file.left_out.push_back(fmt::format("has {} JSON object(s): {}", count, why));
  }
  return file;
}

}  // namespace phub::bench::report
