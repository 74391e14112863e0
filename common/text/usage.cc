#include "common/text/usage.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <string_view>
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

std::string name_of(const CLI::App& app) {
  return std::filesystem::path(app.get_name()).filename();
}

std::string unknown_command(const CLI::App& app, const std::string& word) {
  const std::vector<std::string> commands = commands_of(app);
  const auto meant = nearest_word(word, commands);
  return fmt::format("\"{}\" is no command of {}; {}there are: {}", word, name_of(app),
                     meant ? fmt::format("did you mean \"{}\"? ", *meant) : "",
                     fmt::join(commands, ", "));
}

// CLI11 says "Could not convert: --rate = abc", and of several values the option alone.
std::string unreadable_value(std::string text) {
  for (const std::string_view begin : {"Could not convert: ", "Could not convert "}) {
    if (text.starts_with(begin)) text.erase(0, begin.size());
  }
  constexpr std::string_view kIs = " = ";
  const std::size_t is = text.find(kIs);
  if (is == std::string::npos) return text + ": is not what the option takes";
  return fmt::format("{}: \"{}\" is not what the option takes", text.substr(0, is),
                     text.substr(is + kIs.size()));
}

std::string sentence(const CLI::App& app, const CLI::Error& error) {
  const CLI::App& last = innermost(app);
  std::vector<std::string> words = app.remaining(true);
  const bool needs_command =
      last.get_require_subcommand_min() > 0 && last.get_subcommands().empty();
  const auto word = std::find_if(words.begin(), words.end(),
                                 [](const std::string& w) { return !w.starts_with('-'); });
  if (needs_command && word != words.end()) return unknown_command(last, *word);
  if (needs_command && dynamic_cast<const CLI::RequiredError*>(&error) != nullptr) {
    return fmt::format("{} wants a command; there are: {}", name_of(last),
                       fmt::join(commands_of(last), ", "));
  }
  if (dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr && !words.empty()) {
    return fmt::format("not expected here: {}", fmt::join(words, " "));
  }
  if (dynamic_cast<const CLI::ConversionError*>(&error) != nullptr) {
    return unreadable_value(error.what());
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

void refuse_negative_counts(CLI::App& app) {
  const auto refuse = [](const std::string& word) {
    return word.starts_with('-') ? fmt::format("{} is below 0", word) : std::string();
  };
  for (CLI::Option* const option : app.get_options()) {
    const std::string type = option->get_type_name();
    if (type.starts_with("UINT") || type == "MIB" || type == "N") option->check(refuse);
  }
  for (CLI::App* const command : app.get_subcommands([](CLI::App*) { return true; })) {
    refuse_negative_counts(*command);
  }
}

}  // namespace phub
