// The command lines of `phubctl snapshot`, `snapshots` and `restore`.
//
// Main thread.
#pragma once

#include <CLI/CLI.hpp>

#include "server/phubctl/commands/commands.h"

namespace phub::phubctl {

void declare_snapshots(CLI::App& app, Command& command);

}  // namespace phub::phubctl
