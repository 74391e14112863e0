// The command line of `phubctl tenant` and `phubctl audit`.
//
// Main thread.
#pragma once

#include <CLI/CLI.hpp>

#include "server/phubctl/commands/commands.h"

namespace phub::phubctl {

void declare_tenants(CLI::App& app, Command& command);

}  // namespace phub::phubctl
