// What was wrong with a command line, with the words that were not understood.
//
// Pure functions of a parser that has refused, but for the last; any thread.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace phub {

// One sentence. CLI11 says of a mistyped subcommand only that one is required, and names words that
// it did not expect in reverse.
std::string usage_error(const CLI::App& app, const CLI::ParseError& error);

// For people: the sentence, and how to get help. For CLI::App::failure_message.
std::string usage_failure(const CLI::App* app, const CLI::Error& error);

// Has every option that is a count, of all commands, refuse what is below 0, which CLI11 takes for
// 2^64 less that much. To be called before it parses.
void refuse_negative_counts(CLI::App& app);

}  // namespace phub
