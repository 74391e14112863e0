#include "common/text/help_format.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <memory>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace phub {
namespace {

constexpr std::size_t kColumns = 80;
constexpr std::size_t kContinuedBy = 4;  // columns more than the command line's beginning

std::string names_of(const std::set<CLI::Option*>& options) {
  std::vector<std::string> names;
  for (const CLI::Option* option : options) names.push_back(option->get_name());
  std::sort(names.begin(), names.end());
  return fmt::format("{}", fmt::join(names, ", "));
}

// The words with single spaces between, in lines of at most `columns`; a longer word has its own.
std::string wrapped(const std::string& text, std::size_t columns) {
  std::istringstream words(text);
  std::string lines;
  std::size_t used = 0;
  for (std::string word; words >> word; used += word.size()) {
    if (used > 0 && used + 1 + word.size() > columns) {
      lines += '\n';
      used = 0;
    } else if (used > 0) {
      lines += ' ';
      ++used;
    }
    lines += word;
  }
  return lines;
}

std::string command_line(std::string line) {
  const std::string indented(line.find_first_not_of(' ') + kContinuedBy, ' ');
  std::string lines;
  while (line.size() > kColumns) {
    const std::size_t cut = line.rfind(' ', kColumns - 2);
    if (cut == std::string::npos || cut < indented.size()) break;
    lines += line.substr(0, cut) + " \\\n";
    line = indented + line.substr(cut + 1);
  }
  return lines + line;
}

// Lines that follow each other are a paragraph; those that begin with a blank are command lines.
std::string fitted(const std::string& text) {
  std::istringstream lines(text);
  std::string out, paragraph;
  const auto end_paragraph = [&] {
    if (!paragraph.empty()) out += wrapped(paragraph, kColumns) + '\n';
    paragraph.clear();
  };
  for (std::string line; std::getline(lines, line);) {
    if (!line.empty() && line.front() != ' ') {
      paragraph += line + '\n';
      continue;
    }
    end_paragraph();
    out += (line.empty() ? line : command_line(line)) + '\n';
  }
  end_paragraph();
  return out;
}

// "--rule TEXT:{sum,mean}" is "--rule TEXT", and its text begins with "sum or mean: ".
void move_choices(std::string& name, std::string& text) {
  const std::size_t begin = name.find(":{");
  const std::size_t end = name.find('}', begin);
  if (begin == std::string::npos || end == std::string::npos) return;
  std::string choices = name.substr(begin + 2, end - begin - 2);
  name.erase(begin, end + 1 - begin);
  const std::size_t last = choices.rfind(',');
  if (last != std::string::npos) choices.replace(last, 1, " or ");
  for (std::size_t at = 0; (at = choices.find(',', at)) != std::string::npos; ++at) {
    choices.insert(at + 1, 1, ' ');
  }
  text = choices + ": " + text;
}

class Format final : public CLI::Formatter {
 public:
  std::string make_option(const CLI::Option* option, bool is_positional) const override {
    std::string name = make_option_name(option, is_positional) + make_option_opts(option);
    std::string text = make_option_desc(option);
    if (2 + name.size() > kColumns) move_choices(name, text);
    return entry(name, text);
  }
  std::string make_subcommand(const CLI::App* command) const override {
    return entry(command->get_display_name(true), command->get_description());
  }
  // The program by its name alone: the path of an installation can be longer than a line.
  std::string make_usage(const CLI::App* app, std::string name) const override {
    return fitted(CLI::Formatter::make_usage(app, name.substr(name.rfind('/') + 1)));
  }
  std::string make_description(const CLI::App* app) const override {
    return fitted(CLI::Formatter::make_description(app));
  }
  std::string make_footer(const CLI::App* app) const override {
    return fitted(CLI::Formatter::make_footer(app));
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

 private:
  std::string entry(const std::string& name, const std::string& text) const {
    std::ostringstream out;
    CLI::detail::format_help(out, name, wrapped(text, kColumns - get_column_width()),
                             get_column_width());
    return out.str();
  }
};

}  // namespace

std::shared_ptr<CLI::FormatterBase> help_format() { return std::make_shared<Format>(); }

}  // namespace phub
