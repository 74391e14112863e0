// Help that fits a terminal of 80 columns. For main, before it parses.
#pragma once

#include <CLI/CLI.hpp>

namespace phub {

// Has the help of the program and of all its commands broken at words. Lines of a description or a
// footer that follow each other are one paragraph; those that begin with a space are command lines,
// which are continued behind a backslash. The choices of an option too long for a line are moved
// into its text.
void fit_help(CLI::App& app);

}  // namespace phub
