// How a subcommand of the command line becomes a Command.
//
// Main thread.
#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <utility>

#include "server/phubctl/commands/commands.h"

namespace phub::phubctl {

// Where `sub` is given, `command` becomes `function(session, options)`. `command` outlives `sub`.
template <typename Options, typename Function>
void run_with(CLI::App& sub, Command& command, const std::shared_ptr<Options>& options,
              Function function) {
  sub.callback([options, function = std::move(function), &command] {
    command = [options, function](const Session& session) { return function(session, *options); };
  });
}
// The same for a part of the options, which several subcommands share.
template <typename Options, typename Part, typename Function>
void run_with(CLI::App& sub, Command& command, const std::shared_ptr<Options>& options,
              Part Options::*part, Function function) {
  run_with(sub, command, std::shared_ptr<Part>(options, &(options.get()->*part)),
           std::move(function));
}

}  // namespace phub::phubctl
