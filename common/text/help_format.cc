#include "common/text/help_format.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace phub {
namespace {

constexpr std::size_t kColumns = 80;
constexpr std::string_view kGap = "   ";  // between two columns
constexpr std::size_t kContinuedBy = 4;   // columns more than where a command line begins
constexpr std::string_view kGoesOn = " \\";

std::string names_of(const std::set<CLI::Option*>& options) {
  std::vector<std::string> names;
  for (const CLI::Option* option : options) names.push_back(option->get_name());
  std::sort(names.begin(), names.end());
  return fmt::format("{}", fmt::join(names, ", "));
}

// How the rest of a line that is too long follows.
struct Continuation {
  std::size_t indent = 0;
  std::string_view mark = {};  // at the end of the line before
};

// "  --option TYPE      Description" goes on below "Description", an example behind a backslash.
Continuation continuation_of(std::string_view line) {
  const std::size_t begin = std::min(line.find_first_not_of(' '), line.size());
  const std::size_t gap = line.rfind(kGap, kColumns);
  if (gap != std::string_view::npos && gap > begin) {
    const std::size_t column = line.find_first_not_of(' ', gap);
    if (column < kColumns * 3 / 4) return {.indent = column};
  }
  if (begin > 0 && line.substr(begin).starts_with("phub")) {
    return {.indent = begin + kContinuedBy, .mark = kGoesOn};
  }
  return {.indent = begin};
}

// Where the rest of a line that is too long begins: behind the last blank or comma that lets the
// line before fit. Its size: nowhere.
std::size_t end_of_first(std::string_view line, const Continuation& next_line) {
  const std::size_t indent = next_line.indent;
  const std::size_t blank = line.rfind(' ', kColumns - next_line.mark.size());
  if (blank != std::string_view::npos && blank > indent) return blank + 1;
  const std::size_t comma = line.rfind(',', kColumns - 1);
  if (comma != std::string_view::npos && comma > indent) return comma + 1;
  const std::size_t next = line.find(' ', kColumns);
  return next == std::string_view::npos ? line.size() : next + 1;
}

// Appends the lines that `line` makes but the last, which is returned.
std::string append_wrapped(std::string line, std::string& text) {
  const Continuation next_line = continuation_of(line);
  while (line.size() > kColumns) {
    const std::size_t end = end_of_first(line, next_line);
    if (end == line.size()) break;
    std::string first = line.substr(0, end);
    first.erase(first.find_last_not_of(' ') + 1);
    text += first;
    text += next_line.mark;
    text += '\n';
    const std::size_t rest = std::min(line.find_first_not_of(' ', end), line.size());
    line = std::string(next_line.indent, ' ') + line.substr(rest);
  }
  return line;
}

// Of prose: an empty line ends it, and a line that is indented is none.
bool is_prose(std::string_view line) { return !line.empty() && line.front() != ' '; }

std::string wrapped(std::string_view text) {
  std::string narrow;
  std::string rest;  // of a line of prose that was too long: the next one goes on behind it
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    std::string line(text.substr(begin, end - begin));
    if (!rest.empty() && is_prose(line)) {
      line = rest + " " + line;
    } else if (!rest.empty()) {
      narrow += rest + "\n";
    }
    const std::size_t before = narrow.size();
    rest = append_wrapped(std::move(line), narrow);
    if (narrow.size() == before || !is_prose(rest) || end == text.size()) {
      narrow += rest;
      rest.clear();
      if (end < text.size()) narrow += '\n';
    }
    begin = end + 1;
  }
  return narrow;
}

class Format final : public CLI::Formatter {
 public:
  std::string make_help(const CLI::App* app, std::string name,
                        CLI::AppFormatMode mode) const override {
    return wrapped(CLI::Formatter::make_help(app, std::move(name), mode));
  }

  // What goes with it and what does not is in the description, which has room.
  std::string make_option_opts(const CLI::Option* option) const override {
    const std::string text = CLI::Formatter::make_option_opts(option);
    return text.substr(0, std::min(text.find(" Needs:"), text.find(" Excludes:")));
  }
  std::string make_option_desc(const CLI::Option* option) const override {
    std::string text = option->get_description();
    const auto add = [&text](std::string_view what, const std::set<CLI::Option*>& options) {
      if (options.empty()) return;
      text += fmt::format("{}{} {}", text.empty() ? "" : "; ", what, names_of(options));
    };
    add("only with", option->get_needs());
    add("not with", option->get_excludes());
    return text;
  }
};

}  // namespace

std::shared_ptr<CLI::FormatterBase> help_format() { return std::make_shared<Format>(); }

}  // namespace phub
