// The help of a program, at most 80 columns wide.
//
// Pure; any thread.
#pragma once

#include <CLI/CLI.hpp>
#include <memory>

namespace phub {

// For CLI::App::formatter, before the first subcommand is added. What is longer goes on below where
// it began, or, where a line has columns, below the last one. An example, which begins with the name
// of a program, goes on behind a backslash. Prose that is not indented goes on before its next line.
// A word that is longer stays. What an option needs and excludes is in its description.
std::shared_ptr<CLI::FormatterBase> help_format();

}  // namespace phub
