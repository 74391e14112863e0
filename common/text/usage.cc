#include "common/text/usage.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <vector>

#include "common/text/nearest.h"

namespace phub {
namespace {

// The innermost subcommand that was understood.
const CLI::App& innermost(const CLI::App& app) {
  const std::vector<CLI::App*> parsed = app.get_subcommands();
  return parsed.empty() ? app : innermost(*parsed.back());
}

std::vector<std::string> commands_of(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (!command->get_group().empty()) names.push_back(command->get_name());  // else it is hidden
  }
  return names;
}

std::string unknown_command(const CLI::App& app, const std::string& word) {
  const std::vector<std::string> commands = commands_of(app);
  const auto meant = nearest_word(word, commands);
  const std::string program = std::filesystem::path(app.get_name()).filename();
  return fmt::format("\"{}\" is no command of {}{}; there are: {}", word, program,
                     meant ? fmt::format("; did you mean \"{}\"?", *meant) : "",
                     fmt::join(commands, ", "));
}

std::string sentence(const CLI::App& app, const CLI::Error& error) {
  const CLI::App& last = innermost(app);
  std::vector<std::string> words = app.remaining(true);
  const bool needs_command =
      last.get_require_subcommand_min() > 0 && last.get_subcommands().empty();
  const auto word = std::find_if(words.begin(), words.end(),
                                 [](const std::string& w) { return !w.starts_with('-'); });
  if (needs_command && word != words.end()) return unknown_command(last, *word);
  if (dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr && !words.empty()) {
    return fmt::format("not expected here: {}", fmt::join(words, " "));
  }
  return error.what();
}

}  // namespace

std::string usage_error(const CLI::App& app, const CLI::ParseError& error) {
  return sentence(app, error);
}

std::string usage_failure(const CLI::App* app, const CLI::Error& error) {
  return fmt::format("{}\nRun with --help for more information.\n", sentence(*app, error));
}

}  // namespace phub
