// The help of a program, at most 80 columns wide.
//
// Pure; any thread.
#pragma once

#include <CLI/CLI.hpp>
#include <memory>

namespace phub {

// For CLI::App::formatter, before the first subcommand is added. Lines of a description or a footer
// that follow each other are one paragraph, broken at words. Lines that begin with a blank are
// command lines, which are continued behind a backslash. In CLI11's lists the text goes on below
// itself. A word that is longer stays. An option's text says what it needs and excludes. It also
// has the choices, if they are too long for the line of the option's name.
std::shared_ptr<CLI::FormatterBase> help_format();

}  // namespace phub
