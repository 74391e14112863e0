// The command line of `phubctl tenant` and `phubctl audit`.
//
// Main thread.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>

#include "common/base/status.h"
#include "server/phubctl/client.h"

namespace phub::phubctl {

using Command = std::function<Status(const Session&)>;

void declare_tenants(CLI::App& app, Command& command);

}  // namespace phub::phubctl
