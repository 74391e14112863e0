// The command lines of `phubctl top`, `phubctl job explain` and `phubctl trace`.
//
// Main thread.
#pragma once

#include <CLI/CLI.hpp>

#include "server/phubctl/commands/commands.h"

namespace phub::phubctl {

// `jobs` is the subcommand `job` of `app`; `command` outlives both.
void declare_watch(CLI::App& app, CLI::App& jobs, Command& command);

}  // namespace phub::phubctl
