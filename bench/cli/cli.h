// The command line of the subcommands: each function adds its subcommand with help and checks, and
// a callback that stores what runs. Main thread.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>

#include "common/base/status.h"

namespace phub::bench {

// What a subcommand runs as; kept until the command line is known to be right. The error is main's
// to say; kInvalidArgument is the user's, anything else a failure or a wrong sum.
using Run = std::function<Status()>;

void add_exchange(CLI::App& app, Run& run);
void add_roof(CLI::App& app, Run& run);
void add_chunks(CLI::App& app, Run& run);
void add_bars(CLI::App& app, Run& run);
void add_transport(CLI::App& app, Run& run);
void add_tenants(CLI::App& app, Run& run);
void add_aggregate(CLI::App& app, Run& run);
void add_select(CLI::App& app, Run& run);
void add_dollars(CLI::App& app, Run& run);
void add_replay(CLI::App& app, Run& run);
void add_rack(CLI::App& app, Run& run);
void add_report(CLI::App& app, Run& run);
void add_stragglers(CLI::App& app, Run& run);
void add_simulate(CLI::App& app, Run& run);
// The hidden subcommands that the bench starts its own processes with.
void add_workers(CLI::App& app, Run& run);

}  // namespace phub::bench
